"""JSON straight from the interpreter's C accelerator.

Model-written code may replace anything in the `json` package; the functions here don't go through it. They also save
its import (the largest of a lean start, because it pulls in `re`).
"""

from __future__ import annotations

import _json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _ScannerOptions:
    """What the C scanner asks of a decoder object."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str]

    def __init__(self) -> None:
        self.memo = {}

    @staticmethod
    def parse_constant(text: str) -> object:
        """Refuse NaN and the infinities, which are not JSON."""
        raise ValueError(f"{text} is not JSON")


_options: Any = _ScannerOptions()
_scan = _json.make_scanner(_options)


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def dumps(value: Any) -> bytes:
    """Return strict, compact JSON as UTF-8 bytes; lone surrogates become U+FFFD.

    Raises:
        TypeError: A value has no JSON form.
        ValueError: NaN or an infinity, or a structure that contains itself.
        RecursionError: The structure is nested too deeply.
    """
    # A fresh marker dictionary per call: it is what finds structures that contain themselves.
    encode = _json.make_encoder({}, _refuse, _json.encode_basestring, None, ":", ",", False, False, False)
    text = "".join(encode(value, 0))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def loads(data: bytes) -> Any:
    """Read one JSON value.

    Raises:
        ValueError: The bytes are not exactly one JSON value, or nest too deeply.
    """
    text = data.decode().strip(" \t\r\n")
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):
        # Without `json.decoder` loaded the scanner has no exception type to raise and reports a SystemError.
        raise ValueError("not JSON") from None
    except RecursionError:
        raise ValueError("JSON nests too deeply") from None
    if end != len(text):
        raise ValueError("extra bytes after the JSON value")
    return value
