"""Refuses to run on any DSPy but the one that Fleet is built for, without importing it."""

from __future__ import annotations

import sys
from importlib import metadata

REQUIRED_DSPY = "3.3.1"
"""The only version of DSPy that Fleet runs on."""

EXIT_CODE = 2
"""Exit code of a process that the guard stopped."""


def installed_dspy() -> str:
    """The version of the installed DSPy distribution as its metadata has it, or `none`."""
    try:
        return metadata.version("dspy") or "none"
    except metadata.PackageNotFoundError:
        return "none"


def dspy_problem() -> str | None:
    """What is wrong with the installed DSPy, or None when it is exactly the required version."""
    installed = installed_dspy()
    if installed == REQUIRED_DSPY:
        return None
    return f"Fleet RLM requires exactly DSPy {REQUIRED_DSPY}; installed version is '{installed}'"


def require_dspy() -> None:
    """Return when DSPy is the required version.

    Raises:
        SystemExit: with code 2, after one line on standard error.
    """
    problem = dspy_problem()
    if problem is not None:
        sys.stderr.write(f"fleet: error: {problem}\n")
        raise SystemExit(EXIT_CODE)
