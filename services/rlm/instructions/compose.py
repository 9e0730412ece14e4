"""Puts the fragments together for a policy."""

from __future__ import annotations

from collections.abc import Sequence

from config.policy import Policy
from services.rlm.instructions import base, bounded_context, recursion, repl, tools, verification

ROOT_MOUNT = "/workspace"
"""Where the Root's sandbox has its files."""

CHILD_MOUNT = "/scratch"
"""Where a child's sandbox has its files."""


def compose_root(policy: Policy, extra: Sequence[str] = ()) -> str:
    """Return the Root's instructions.

    Args:
        policy: gives the limits that the text states, and whether children exist.
        extra: texts of the selected Skills, appended in order.
    """
    enabled = policy.rlm.recursion_enabled
    parts = [
        base.ROOT,
        _repl(policy, ROOT_MOUNT, policy.rlm.max_output_chars, policy.sandbox.root.network) + "\n" + repl.ROOT_STATE,
        tools.LADDER.format(recursion=tools.LADDER_CHILDREN if enabled else "") + "\n\n" + tools.HOST_TOOLS.format(),
        _recursion(policy) if enabled else "",
        verification.ROOT,
        bounded_context.ROOT,
        *extra,
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def compose_child(policy: Policy) -> str:
    """Return a child's instructions."""
    parts = [
        base.CHILD,
        _repl(policy, CHILD_MOUNT, policy.rlm.recursion_child_max_output_chars, policy.sandbox.child.network),
        tools.LADDER.format(recursion=""),
        verification.CHILD.format(mount_root=CHILD_MOUNT),
        bounded_context.CHILD,
    ]
    return "\n\n".join(parts)


def _repl(policy: Policy, mount_root: str, max_output_chars: int, network: str) -> str:
    return repl.REPL.format(
        max_output_chars=max_output_chars,
        execution_timeout_seconds=policy.rlm.execution_timeout_seconds,
        mount_root=mount_root,
        network=repl.NO_NETWORK if network == "none" else "",
    )


def _recursion(policy: Policy) -> str:
    return recursion.RECURSION.format(
        max_calls=policy.rlm.recursion_max_calls,
        max_parallel=policy.rlm.recursion_max_parallel_children,
        child_iters=policy.rlm.recursion_child_max_iters,
        child_llm_calls=policy.rlm.recursion_child_max_llm_calls,
        mount_root=ROOT_MOUNT,
    )
