"""Python functions and output fields as the sandbox is told of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleet.sandbox.v1 import attach_pb2

_DESCRIPTION_CHARS = 4096


def tool_specs(tools: Mapping[str, Callable[..., Any]]) -> list[attach_pb2.ToolSpec]:
    """Return the specification of each function: parameters in order, and which of them may be left out."""
    return [
        attach_pb2.ToolSpec(
            name=name,
            parameters=[
                attach_pb2.ToolParameter(name=parameter.name, optional=parameter.default is not parameter.empty)
                for parameter in inspect.signature(function).parameters.values()
                if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            ],
            description=(inspect.getdoc(function) or "")[:_DESCRIPTION_CHARS],
        )
        for name, function in tools.items()
    ]


def output_fields(fields: Iterable[Mapping[str, str]]) -> list[attach_pb2.OutputField]:
    """Return what SUBMIT takes, from DSPy's description of the outputs."""
    return [attach_pb2.OutputField(name=field["name"], type=field.get("type", "")) for field in fields]
