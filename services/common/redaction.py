"""Removes secrets from text that leaves the process: known values, and whatever looks like a key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from config.policy import Policy
from config.variables import named_by

MASK = "[redacted]"
"""What stands for a secret."""

_SHORTEST = 8
"""Shorter values are no secrets worth the false alarms."""

_PUBLIC = ("base_url_env", "api_url_env", "organization_env", "snapshot_env", "verify_keys_env")
"""Endings of keys whose variables hold no secret."""

_PATTERNS = re.compile(
    r"""
      -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)  # PEM
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*                              # JWT
    | \b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}                                                      # OpenAI and its like
    | \b(?:dapi|dtn_|ghp_|gho_|ghs_|github_pat_|glpat-|hf_|xox[abprs]-)[A-Za-z0-9_-]{16,}    # other providers
    | \bAKIA[0-9A-Z]{16}\b                                                                   # AWS
    | (?<=[Bb]earer[ ])[A-Za-z0-9._~+/=-]{8,}                                                # authorization header
    | (?<=://)[^/@\s:]+:[^/@\s]+(?=@)                                                        # credentials in a URL
    """,
    re.VERBOSE | re.DOTALL,
)


class Redactor:
    """Masks secrets in texts and in nested values.

    Args:
        secrets: values that are known to be secret; those shorter than 8 characters are left out.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({value for value in secrets if len(value) >= _SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def has_secret(self, text: str) -> bool:
        """Whether `text` carries a known secret value."""
        return self._known is not None and self._known.search(text) is not None

    def redact(self, text: str) -> str:
        """`text` with known secrets and key-like words masked."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        return _PATTERNS.sub(MASK, text)

    def redact_value(self, value: Any) -> Any:
        """`value` with every text in it redacted, through mappings and sequences."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {key: self.redact_value(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.redact_value(item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.redact(str(value))


def known_secrets(policy: Policy, env: Mapping[str, str]) -> list[str]:
    """The values of every environment variable that `policy` names for a secret."""
    return [
        env[variable.name].strip()
        for variable in named_by(policy)
        if variable.name in env and not variable.key.endswith(_PUBLIC)
    ]
