"""The `[rlm]` section: what one Turn's native RLM and its children may do."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from config.section import Bytes, Count, Seconds, Section


class Rlm(Section):
    """Limits of the Root and of its children.

    Attributes:
        max_iters: steps of the Root's loop.
        max_llm_calls: prompts sent by `llm_query*`, the Root's and the children's alike.
        max_tool_calls: host tool calls from sandbox code.
        max_output_chars: characters of one step's output that the model sees, head and tail.
        max_execution_output_bytes: bytes that a Turn's sandbox code may print.
        execution_timeout_seconds: sandbox time of one step.
        wrap_up_seconds: time kept at the end of a Turn for its answer.
        recursion_enabled: whether the Root has `rlm_query` and `rlm_query_batched`.
        recursion_max_calls: children of a Turn.
        recursion_max_parallel_children: children running at one moment.
        recursion_child_max_iters: steps of one child's loop.
        recursion_child_max_llm_calls: prompts of one child.
        recursion_child_max_output_chars: characters of one step's output that a child's model sees.
        recursion_max_prompt_chars: a child's task, context and manifest together.
        settle_seconds: how long settlement waits for children to end.
        child_grace_seconds: how long an expired child may take to clean up.
    """

    max_iters: Annotated[int, Field(ge=1, le=100)]
    max_llm_calls: Annotated[int, Field(ge=0, le=10_000)]
    max_tool_calls: Annotated[int, Field(ge=0, le=100_000)]
    max_output_chars: Annotated[int, Field(ge=200, le=1_000_000)]
    max_execution_output_bytes: Bytes
    execution_timeout_seconds: Seconds
    wrap_up_seconds: Seconds
    recursion_enabled: bool
    recursion_max_calls: Annotated[int, Field(ge=1, le=64)]
    recursion_max_parallel_children: Annotated[int, Field(ge=1, le=8)]
    recursion_child_max_iters: Annotated[int, Field(ge=1, le=100)]
    recursion_child_max_llm_calls: Annotated[int, Field(ge=0, le=10_000)]
    recursion_child_max_output_chars: Annotated[int, Field(ge=200, le=1_000_000)]
    recursion_max_prompt_chars: Count
    settle_seconds: Seconds
    child_grace_seconds: Seconds
