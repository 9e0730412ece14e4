"""The limits of a Turn: the policy's, lowered by what the client asks for."""

from __future__ import annotations

import math

from config.policy import Policy
from services.common.errors import FieldViolation, FleetError
from services.session.turns.spending import DIMENSIONS, Limits
from services.session.turns.turn import TurnInput


def policy_limits(policy: Policy) -> Limits:
    """What a Turn may spend when its client asks for nothing less."""
    rlm = policy.rlm
    return Limits(
        iterations=rlm.max_iters,
        llm_calls=rlm.max_llm_calls,
        tool_calls=rlm.max_tool_calls,
        child_calls=rlm.recursion_max_calls if rlm.recursion_enabled else 0,
        output_bytes=rlm.max_execution_output_bytes,
        seconds=math.ceil(policy.runtime.turn_timeout_seconds),
    )


def seconds_of(policy: Policy, given: TurnInput) -> float:
    """The Turn's time in seconds: the least of the policy's and both of the client's."""
    asked = (policy.runtime.turn_timeout_seconds, given.timeout_seconds, given.limits.seconds)
    return min(float(each) for each in asked if each)


def limits_of(policy: Policy, given: TurnInput) -> Limits:
    """The limits in force for a Turn.

    Raises:
        FleetError: INVALID_ARGUMENT naming every field that asks for more than the policy allows, and the limit.
    """
    allowed = policy_limits(policy)
    most = allowed.as_mapping()
    asked = given.limits.as_mapping()
    violations = [
        FieldViolation(f"budget.{name}", f"must be at most {most[name]}")
        for name in DIMENSIONS
        if asked[name] > most[name]
    ]
    longest = policy.runtime.turn_timeout_seconds
    if given.timeout_seconds is not None and given.timeout_seconds > longest:
        violations.append(FieldViolation("timeout", f"must be at most {longest:g} s"))
    if violations:
        first = violations[0]
        message = f"{first.field} {first.description}."
        raise FleetError("INVALID_ARGUMENT", message, violations=violations)
    chosen = {name: asked[name] or most[name] for name in DIMENSIONS}
    chosen["seconds"] = math.ceil(seconds_of(policy, given))
    return Limits(**chosen)
