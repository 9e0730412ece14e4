"""What an error means for a child: the category of its outcome, or the end of the whole call."""

from __future__ import annotations

from services.common.errors import FleetError
from services.recursion.children.outcomes import ChildFailed, ChildStatus

FATAL = frozenset({"OWNERSHIP_LOST", "CHILDREN_UNRESOLVED", "TURN_CANCELLED"})
"""Reasons that end the call and with it the Turn, instead of one child."""

_INPUTS = frozenset(
    {"PATH_INVALID", "FILE_NOT_FOUND", "FILE_NOT_REGULAR", "FILE_CHANGED", "FILE_LIMIT_EXCEEDED", "INVALID_ARGUMENT"}
)
_CATEGORIES = {
    "PATH_REFUSED": "refused_name",
    "BUDGET_EXHAUSTED": "budget",
    "LEDGER_CLOSED": "budget",
    "SANDBOX_CAPACITY": "capacity",
    "CAPACITY_EXHAUSTED": "capacity",
    "SANDBOX_START_FAILED": "interpreter",
    "SANDBOX_PROTOCOL": "interpreter",
    "INTERPRETER_FAILED": "interpreter",
    "LEASE_LOST": "interpreter",
    "LEASE_NOT_FOUND": "interpreter",
    "LEASE_NOT_READY": "interpreter",
    "STALE_EPOCH": "interpreter",
    "OUTPUT_INVALID": "invalid_output",
    "TURN_TIMED_OUT": "timeout",
    "DEADLINE_EXCEEDED": "timeout",
}


def of_inputs(error: FleetError) -> ChildFailed:
    """What an error while inputs are looked up or copied means."""
    if error.reason in _INPUTS:
        return ChildFailed("invalid_inputs", error.message)
    return of_run(error)


def of_acquire(error: FleetError) -> ChildFailed:
    """What an error while a sandbox is awaited means: the child was never started."""
    category = _CATEGORIES.get(error.reason, "unavailable")
    return ChildFailed(category, error.message, ChildStatus.NOT_STARTED)


def of_results(error: FleetError) -> ChildFailed:
    """What an error while result files are collected and delivered means."""
    if error.reason in _INPUTS or error.reason == "PATH_REFUSED":
        return ChildFailed("invalid_results", error.message)
    return of_run(error)


def of_run(error: FleetError) -> ChildFailed:
    """What any other error means."""
    model = error.reason.startswith("MODEL_")
    category = "model" if model else _CATEGORIES.get(error.reason, "unavailable")
    status = ChildStatus.TIMED_OUT if category == "timeout" else ChildStatus.FAILED
    return ChildFailed(category, error.message, status)
