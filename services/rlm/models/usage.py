"""What an invocation's model calls have used."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelUse:
    """Calls and tokens of one model in one role.

    Attributes:
        role: `root`, `sub` or `child`.
        model: the model's id as configured.
        calls: requests sent, re-asks included.
        prompt_tokens: as the provider counted them.
        completion_tokens: as the provider counted them.
        cost_usd: cost in US dollars, or None when no price is known.
    """

    role: str
    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None = None


class UsageMeter:
    """Adds up model calls; safe from any thread."""

    def __init__(self) -> None:
        self._uses: dict[tuple[str, str], ModelUse] = {}
        self._lock = threading.Lock()

    def add(self, use: ModelUse) -> None:
        """Add `use` to what its role and model have used so far."""
        with self._lock:
            known = self._uses.get((use.role, use.model))
            self._uses[use.role, use.model] = use if known is None else _sum(known, use)

    def uses(self) -> list[ModelUse]:
        """Return one entry a role and model, in order of first use."""
        with self._lock:
            return list(self._uses.values())


def _sum(one: ModelUse, other: ModelUse) -> ModelUse:
    costs = [use.cost_usd for use in (one, other) if use.cost_usd is not None]
    return ModelUse(
        role=one.role,
        model=one.model,
        calls=one.calls + other.calls,
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        cost_usd=sum(costs) if costs else None,
    )
