"""Puts a REPL program together from pieces and a body."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from services.common.python_syntax import parse_python
from services.offline.programs.source import plain_source

IMPORTS = {
    "Callable": "from collections.abc import Callable",
    "Counter": "from collections import Counter",
    "Decimal": "from decimal import Decimal",
    "Path": "from pathlib import Path",
    "bisect_right": "from bisect import bisect_right",
    "csv": "import csv",
    "date": "from datetime import date",
    "datetime": "from datetime import datetime",
    "defaultdict": "from collections import defaultdict",
    "groupby": "from itertools import groupby",
    "io": "import io",
    "json": "import json",
    "math": "import math",
    "os": "import os",
    "re": "import re",
    "statistics": "import statistics",
}
"""What a name that a program may use is imported from; nothing but the standard library."""


def program(title: str, body: str, pieces: Sequence[Callable[..., Any]] = ()) -> str:
    """The text of one program.

    Args:
        title: What the step does; its first line says so, which is how a later call knows that it has run.
        body: Statements of the step.
        pieces: Functions whose source the step defines before its statements.
    """
    return _framed(title, "\n\n".join([*map(plain_source, pieces), textwrap.dedent(body).strip()]))


def without_known(code: str, earlier: Iterable[str]) -> str:
    """The same program without the functions that earlier programs have defined in the same words.

    Args:
        code: A program made by :func:`program`.
        earlier: Programs that have run in the same interpreter.
    """
    known = "\n".join(earlier)
    lines = code.splitlines()
    for node in reversed(parse_python(code).body):
        if isinstance(node, ast.FunctionDef) and "\n".join(lines[node.lineno - 1 : node.end_lineno]) + "\n" in known:
            del lines[node.lineno - 1 : node.end_lineno]
    kept = "\n".join(line for line in lines[1:] if not line.startswith(("import ", "from ")))
    return _framed(lines[0].removeprefix("# Step: "), re.sub(r"\n{3,}", "\n\n", kept).strip())


def _framed(title: str, code: str) -> str:
    """A program with its title and the imports that it needs."""
    names = {node.id for node in ast.walk(parse_python(code)) if isinstance(node, ast.Name)}
    imports = sorted(IMPORTS[name] for name in names & IMPORTS.keys())
    return "\n".join([f"# Step: {title}", *imports, *([""] if imports else []), code])


def literal(value: object) -> str:
    """A Python literal that no marker or fence can hide in, so that a reply's framing can't be broken by data."""
    return repr(value).replace("`", "\\x60").replace("[[", "[\\x5b") if isinstance(value, str) else _nested(value)


def _nested(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return repr(value)
