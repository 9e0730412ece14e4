"""What a Turn may spend and what it has spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
"""Anything that JSON can carry."""

DIMENSIONS = ("iterations", "llm_calls", "tool_calls", "child_calls", "output_bytes", "seconds")
"""The budget's dimensions in the order that they are shown."""


@dataclass(frozen=True)
class BudgetLine:
    """One dimension of a Turn's budget.

    Attributes:
        dimension: one of `DIMENSIONS`.
        used: units spent and reserved.
        limit: units that may be spent.
    """

    dimension: str
    used: int
    limit: int


@dataclass(frozen=True)
class Limits:
    """The limits of one Turn, in units of each dimension; in a request 0 stands for the policy's own."""

    iterations: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    child_calls: int = 0
    output_bytes: int = 0
    seconds: int = 0

    def as_mapping(self) -> Mapping[str, int]:
        """Limit by dimension, in the order of `DIMENSIONS`."""
        return {name: getattr(self, name) for name in DIMENSIONS}

    def lines(self) -> tuple[BudgetLine, ...]:
        """The budget of a Turn that has spent nothing."""
        return tuple(BudgetLine(name, 0, limit) for name, limit in self.as_mapping().items())


@dataclass(frozen=True)
class ModelUsage:
    """Calls and tokens of one model in one role.

    Attributes:
        role: "root", "sub" or "child".
        model: the model's id as configured.
        calls: requests sent, re-asks included.
        prompt_tokens: tokens of the prompts.
        completion_tokens: tokens of the completions.
        cost_usd: cost in US dollars, or None where it isn't known.
    """

    role: str
    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None = None


@dataclass(frozen=True)
class Usage:
    """What a Turn used in all: one entry a model and role, and the number of children started."""

    models: tuple[ModelUsage, ...] = ()
    children: int = 0


@dataclass(frozen=True)
class Spent:
    """The account of a Turn at its end, or so far.

    Attributes:
        usage: calls and tokens by model.
        budget: limits and what was spent, by dimension; empty keeps what the Turn has recorded so far.
        iterations: steps of the Root's loop.
    """

    usage: Usage = field(default_factory=Usage)
    budget: tuple[BudgetLine, ...] = ()
    iterations: int = 0
