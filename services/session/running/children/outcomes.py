"""Outcomes of children as the values that the Root's code gets, and what they add to a Turn's usage."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.common.v1 import usage_pb2
from fleet.recursion.v1 import child_pb2
from pydantic import JsonValue

from services.session.running.children.events import STATUS
from services.session.turns.spending import ModelUsage

UNAVAILABLE = "unavailable"
"""The category of children whose run can't be reached any more."""


def to_value(outcome: child_pb2.ChildOutcome) -> JsonValue:
    """An outcome as JSON, the way `rlm_query` returns it."""
    return {
        "status": STATUS.get(outcome.status, "failed"),
        "child_id": outcome.child_id,
        "answer": outcome.answer,
        "evidence": list(outcome.evidence),
        "gaps": list(outcome.gaps),
        "result_files": [
            {
                "path": file.path,
                "local_path": file.local_path,
                "byte_size": file.byte_size,
                "sha256": file.sha256,
            }
            for file in outcome.result_files
        ],
        "source_manifest_sha256": outcome.source_manifest_sha256,
        "termination": outcome.termination,
        "usage": _usage(outcome.usage),
        "error": _error(outcome),
    }


def unreachable(child_ids: Iterable[str]) -> list[child_pb2.ChildOutcome]:
    """Failed outcomes of children whose run can't be reached any more, in input order."""
    error = child_pb2.ChildError(
        category=UNAVAILABLE, message="The recursion service can't be reached, so the child's outcome is not known."
    )
    return [
        child_pb2.ChildOutcome(
            status=child_pb2.CHILD_STATUS_FAILED,
            child_id=child_id,
            error=error,
            cleanup=child_pb2.CLEANUP_STATE_PENDING if child_id else child_pb2.CLEANUP_STATE_NONE,
        )
        for child_id in child_ids
    ]


def model_usage(usage: usage_pb2.Usage) -> list[ModelUsage]:
    """What a child used, one entry a model and role."""
    return [
        ModelUsage(
            role=use.role,
            model=use.model,
            calls=use.calls,
            prompt_tokens=use.prompt_tokens,
            completion_tokens=use.completion_tokens,
            cost_usd=use.cost_usd if use.HasField("cost_usd") else None,
        )
        for use in usage.models
    ]


def merged(uses: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """One entry a role and model, in order of first use."""
    sums: dict[tuple[str, str], ModelUsage] = {}
    for use in uses:
        known = sums.get((use.role, use.model))
        sums[use.role, use.model] = use if known is None else _sum(known, use)
    return tuple(sums.values())


def _sum(one: ModelUsage, other: ModelUsage) -> ModelUsage:
    costs = [use.cost_usd for use in (one, other) if use.cost_usd is not None]
    return ModelUsage(
        role=one.role,
        model=one.model,
        calls=one.calls + other.calls,
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        cost_usd=sum(costs) if costs else None,
    )


def _usage(usage: usage_pb2.Usage) -> JsonValue:
    return {
        "models": [
            {
                "role": use.role,
                "model": use.model,
                "calls": use.calls,
                "prompt_tokens": use.prompt_tokens,
                "completion_tokens": use.completion_tokens,
            }
            for use in model_usage(usage)
        ]
    }


def _error(outcome: child_pb2.ChildOutcome) -> JsonValue:
    if not outcome.HasField("error"):
        return None
    return {"category": outcome.error.category, "message": outcome.error.message}
