"""Host tools as plain Python functions with real signatures."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


class _Omitted:
    """Stands for an argument that was not given."""

    def __repr__(self) -> str:
        return "..."


OMITTED = _Omitted()
HOST_FILE = "<host>"
"""File name of host functions in tracebacks, where they are left out."""


class Parameter:
    """A parameter of a host function.

    Args:
        name: A Python identifier.
        optional: Whether a call may leave it out.
    """

    __slots__ = ("name", "optional")

    def __init__(self, name: str, optional: bool) -> None:
        self.name = name
        self.optional = optional


def make_function(
    name: str,
    parameters: Sequence[Parameter],
    description: str,
    call: Callable[[dict[str, Any]], Any],
) -> Callable[..., Any]:
    """Return a function that binds positional and keyword arguments by Python's own rules.

    Args:
        name: Its name.
        parameters: In order; a required one after an optional one is taken by keyword only.
        description: Its docstring.
        call: Given the bound arguments by name, without those left out.

    Raises:
        ValueError: A name is no identifier.
    """
    for word in (name, *(parameter.name for parameter in parameters)):
        if not word.isidentifier():
            raise ValueError(f"not an identifier: {word!r}")
    bound = ", ".join(f"{parameter.name!r}: {parameter.name}" for parameter in parameters)
    source = f"def {name}({_signature(parameters)}):\n    return __call({{{bound}}})\n"
    scope: dict[str, Any] = {
        "__call": lambda given: call({key: value for key, value in given.items() if value is not OMITTED}),
        "__omitted": OMITTED,
    }
    try:
        exec(compile(source, HOST_FILE, "exec"), scope)  # noqa: S102 - made of checked identifiers only
    except SyntaxError as error:
        raise ValueError(f"a name of {name}() is a Python keyword or occurs twice") from error
    function: Callable[..., Any] = scope[name]
    function.__doc__ = description or None
    function.__module__ = "host"
    return function


def _signature(parameters: Sequence[Parameter]) -> str:
    parts: list[str] = []
    seen_optional = keyword_only = False
    for parameter in parameters:
        if parameter.optional:
            seen_optional = True
            parts.append(f"{parameter.name}=__omitted")
            continue
        if seen_optional and not keyword_only:
            keyword_only = True
            parts.append("*")
        parts.append(parameter.name)
    return ", ".join(parts)
