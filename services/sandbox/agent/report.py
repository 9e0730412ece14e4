"""What the model is told about an exception of its code: type, message, line and a short traceback."""

from __future__ import annotations

import os

from .output import cut
from .tools import HOST_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FRAMES = 12
_MESSAGE_BYTES = 4_000
_TRACEBACK_BYTES = 8_000


def describe(error: BaseException, filename: str) -> dict[str, Any]:
    """Return a public description of an exception.

    Args:
        error: The exception.
        filename: The name that the step's code was compiled with; the line is the deepest one in it.
    """
    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename == filename:
        line = error.lineno or 0
        return {"type": name, "message": _text(error.msg), "line": line, "traceback": _syntax(error, name, line)}
    trace = _without_own_frames(error.__traceback__)
    message = _message(error)
    try:
        text = _format(error, trace)
    except Exception:  # noqa: BLE001 - model-made exceptions may break any rule of formatting
        text = f"{name}: {message}"
    return {
        "type": name,
        "message": message,
        "line": _line(trace, filename),
        "traceback": cut(text.encode("utf-8", "backslashreplace"), _TRACEBACK_BYTES).decode(),
    }


def _text(value: object) -> str:
    return cut(str(value).encode("utf-8", "backslashreplace"), _MESSAGE_BYTES).decode()


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the code asked to exit with {_safe_repr(error.code)}; the interpreter goes on"
    try:
        return _text(error)
    except Exception:  # noqa: BLE001 - __str__ is model code
        return "(its message can't be shown)"


def _safe_repr(value: object) -> str:
    try:
        return _text(repr(value))
    except Exception:  # noqa: BLE001 - __repr__ is model code
        return type(value).__name__


def _syntax(error: SyntaxError, name: str, line: int) -> str:
    source = (error.text or "").rstrip("\n")
    lines = [f'File "{error.filename}", line {line}']
    if source:
        lines.append("    " + source.lstrip())
        if error.offset:
            lines.append("    " + " " * max(error.offset - 1 - (len(source) - len(source.lstrip())), 0) + "^")
    lines.append(f"{name}: {error.msg}")
    return _text("\n".join(lines))


def _is_own(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_OWN)


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and _is_own(trace):
        trace = trace.tb_next
    return trace


def _line(trace: TracebackType | None, filename: str) -> int:
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _format(error: BaseException, trace: TracebackType | None) -> str:
    import traceback

    report = traceback.TracebackException(type(error), error, trace, limit=-_FRAMES, compact=True)
    stack: list[Any] = [report]
    while stack:
        part = stack.pop()
        part.stack[:] = [entry for entry in part.stack if not entry.filename.startswith((_OWN, "<frozen", HOST_FILE))]
        stack += [linked for linked in (part.__cause__, part.__context__) if linked is not None]
    return "".join(report.format()).rstrip("\n")
