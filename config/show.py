"""Prints the effective policy with secrets masked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from config.policy import Policy
from config.variables import named_by

MASK = "********"
"""What stands for a secret."""

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def effective(policy: Policy, env: Mapping[str, str]) -> dict[str, Any]:
    """The policy as plain tables, with a `variables` table that says which environment variables are set.

    A set variable shows as a mask, never its value; credentials inside URLs are masked too.
    """
    tables = _masked(policy.model_dump(mode="json", exclude_none=True))
    names = sorted({variable.name for variable in named_by(policy)})
    tables["variables"] = {name: MASK if env.get(name, "").strip() else "" for name in names}
    return dict(tables)


def as_json(policy: Policy, env: Mapping[str, str]) -> str:
    """The effective policy as one JSON object, indented."""
    return json.dumps(effective(policy, env), indent=2)


def as_toml(policy: Policy, env: Mapping[str, str]) -> str:
    """The effective policy as a TOML document."""
    return "\n".join(_lines(effective(policy, env), ())).strip() + "\n"


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return _CREDENTIALS.sub(MASK, value)
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return value


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if path and plain:
        yield f"\n[{'.'.join(path)}]"
    for key, value in plain.items():
        # JSON's scalars, arrays and short escapes are TOML too; its surrogate pairs are not.
        yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _lines(value, (*path, key))
