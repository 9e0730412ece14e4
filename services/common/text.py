"""Text that can cross a wire: model and user text may hold lone surrogates, which have no UTF-8 form."""

from __future__ import annotations

from services.common.errors import FieldViolation, FleetError

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""What stands for a character that has no UTF-8 form."""


def clean(text: str) -> str:
    """`text` with every lone surrogate replaced; the same object when there is none."""
    if is_utf8(text):
        return text
    # A pair of surrogates is one character that was split; joining comes before replacing what is left.
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined if is_utf8(joined) else "".join(REPLACEMENT if "\ud800" <= c <= "\udfff" else c for c in joined)


def is_utf8(text: str) -> bool:
    """Whether `text` can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_utf8(text: str, field: str) -> str:
    """`text` itself.

    Raises:
        FleetError: INVALID_ARGUMENT naming `field`, when `text` can't be written as UTF-8.
    """
    if is_utf8(text):
        return text
    violation = FieldViolation(field, "must be text that UTF-8 can carry; it has lone surrogates")
    raise FleetError("INVALID_ARGUMENT", f"{field} is not valid Unicode text.", violations=[violation])
