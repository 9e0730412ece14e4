"""Parsing Python source, safely from several threads at once."""

from __future__ import annotations

import ast
import threading

_PARSING = threading.Lock()


def parse_python(source: str) -> ast.Module:
    """The syntax tree of `source`, as by `ast.parse`.

    CPython before 3.11.5 keeps the depth of the tree that it builds in one place for all threads and fails with a
    SystemError when two of them parse at once, so they take turns.

    Raises:
        SyntaxError: it is not Python.
        ValueError: it has null bytes.
        RecursionError, MemoryError: it is nested too deeply.
    """
    with _PARSING:
        return ast.parse(source)
