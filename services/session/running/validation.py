"""The output contract: what an answer must be before it is committed."""

from __future__ import annotations

import math
from collections.abc import Mapping

from services.common.errors import FleetError
from services.common.redaction import Redactor
from services.common.text import clean
from services.session.turns.spending import JsonValue

MAX_DEPTH = 64
"""Deepest nesting of an output."""

ANSWER_STEPS = 20
"""An answer may be as long as the shown output of so many steps."""

_NUL = "\x00"
_REPLACEMENT = "�"


def check_outputs(outputs: Mapping[str, object], max_chars: int, redactor: Redactor) -> dict[str, JsonValue]:
    """Check typed outputs and make them storable: no lone surrogates, no NULs, finite numbers.

    Args:
        outputs: what the RLM gave, `answer` included.
        max_chars: most characters of all outputs together.
        redactor: knows the secrets that must not be in them.

    Raises:
        FleetError: OUTPUT_INVALID, saying which rule is broken without showing the output.
    """
    checked = {name: _storable(value, name, 0) for name, value in outputs.items()}
    answer = checked.get("answer")
    if not isinstance(answer, str) or not answer.strip():
        raise _invalid("The answer is blank.")
    length = sum(_length(value) for value in checked.values())
    if length > max_chars:
        raise _invalid(f"The outputs have {length} characters; at most {max_chars} are allowed.")
    if any(_has_secret(value, redactor) for value in checked.values()):
        raise _invalid("The outputs contain a secret value of this deployment.")
    return checked


def storable(text: str) -> str:
    """`text` as every database can keep it: lone surrogates and NULs are replaced."""
    return clean(text).replace(_NUL, _REPLACEMENT)


def _storable(value: object, name: str, depth: int) -> JsonValue:
    if depth > MAX_DEPTH:
        raise _invalid(f"The output {storable(name)} is nested more than {MAX_DEPTH} levels deep.")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _invalid(f"The output {storable(name)} has a number that is not finite.")
        return value
    if isinstance(value, Mapping):
        return {storable(str(key)): _storable(item, name, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item, name, depth + 1) for item in value]
    raise _invalid(f"The output {storable(name)} is not a JSON value.")


def _length(value: JsonValue) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _length(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(_length(item) for item in value)
    return len(str(value)) if isinstance(value, float) else 8


def _has_secret(value: JsonValue, redactor: Redactor) -> bool:
    if isinstance(value, str):
        return redactor.has_secret(value)
    if isinstance(value, dict):
        return any(redactor.has_secret(key) or _has_secret(item, redactor) for key, item in value.items())
    return isinstance(value, list) and any(_has_secret(item, redactor) for item in value)


def _invalid(message: str) -> FleetError:
    return FleetError("OUTPUT_INVALID", message)
