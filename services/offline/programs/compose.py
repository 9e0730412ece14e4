"""Puts a REPL program together from pieces and a body."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

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
    parts = [plain_source(piece) for piece in pieces]
    body = textwrap.dedent(body).strip()
    code = "\n\n".join([*parts, body])
    names = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
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
