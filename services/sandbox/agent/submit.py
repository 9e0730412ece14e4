"""SUBMIT: hands the final outputs over and ends the step, whatever the code catches."""

from __future__ import annotations

import _thread

from .lineage import Lineage
from .link import encode_arguments
from .tools import Parameter, make_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str, int, float, bool),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "list": (list, tuple),
    "dict": (dict,),
}


_INFINITY = float("inf")


class Submitted(BaseException):
    """Ends the step after SUBMIT took the outputs."""


class Submission:
    """The first valid SUBMIT of a step.

    Args:
        lineage: Says whether a calling thread belongs to the invocation that the step does.

    Attributes:
        final: The outputs as a JSON object, or None.
    """

    def __init__(self, lineage: Lineage) -> None:
        self.final: bytes | None = None
        self._lineage = lineage
        self._lock = _thread.allocate_lock()

    def clear(self) -> None:
        """A step begins."""
        self.final = None

    def take(self, outputs: bytes) -> None:
        """Keep the outputs of the first call; later ones change nothing.

        Raises:
            RuntimeError: An earlier invocation left the calling thread running.
        """
        if self._lineage.late:
            raise RuntimeError("SUBMIT() can't be called from a thread that an earlier Turn left running")
        with self._lock:
            if self.final is None:
                self.final = outputs


def make_submit(fields: Sequence[tuple[str, str]], submission: Submission) -> Callable[..., Any]:
    """Return the SUBMIT function of some output fields.

    Args:
        fields: Name and type of each output; an empty type is not checked. Without fields there is one, `output`.
        submission: Where the outputs go.
    """
    types = dict(fields) or {"output": ""}

    def submit(outputs: dict[str, Any]) -> None:
        checked = {name: _check(name, types[name], value) for name, value in outputs.items()}
        submission.take(encode_arguments("SUBMIT", checked))
        raise Submitted

    shown = ", ".join(f"{name}: {kind}" if kind else name for name, kind in types.items())
    parameters = [Parameter(name, optional=False) for name in types]
    return make_function("SUBMIT", parameters, f"SUBMIT({shown}) ends the task with its final outputs.", submit)


def _check(name: str, kind: str, value: object) -> object:
    allowed = _TYPES.get(kind)
    if allowed is None:
        return value
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind in ("int", "float")):
        raise TypeError(f"SUBMIT() output {name!r} must be {kind}, not {type(value).__name__}")
    if isinstance(value, float) and not -_INFINITY < value < _INFINITY:
        raise TypeError(f"SUBMIT() output {name!r} must be a finite number or text, not {value}")
    return str(value) if kind == "str" else value
