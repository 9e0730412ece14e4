"""The source of a function as a program shows it: without type annotations."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from services.common.python_syntax import parse_python


@functools.cache
def plain_source(function: Callable[..., Any]) -> str:
    """Source text of a function of this project, annotations left out so that it needs no imports for them."""
    source = textwrap.dedent(inspect.getsource(function)).strip()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    raw = source.encode()
    for first, last in sorted(_annotations(parse_python(source), starts), reverse=True):
        opening = max(raw.rfind(b":", 0, first), raw.rfind(b"->", 0, first))
        before = raw[:opening].rstrip() if raw[opening : opening + 1] == b"-" else raw[:opening]
        raw = before + raw[last:]
    return raw.decode()


def _annotations(tree: ast.AST, starts: list[int]) -> Iterator[tuple[int, int]]:
    """Byte spans of annotations of arguments, results and assignments."""
    for node in ast.walk(tree):
        found: ast.expr | None = None
        if isinstance(node, ast.arg | ast.AnnAssign):
            found = node.annotation
        elif isinstance(node, ast.FunctionDef):
            found = node.returns
        if found is not None and found.end_lineno is not None and found.end_col_offset is not None:
            yield starts[found.lineno - 1] + found.col_offset, starts[found.end_lineno - 1] + found.end_col_offset
