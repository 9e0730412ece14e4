"""What happens inside a child's RLM, as facts of its run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from services.common.text import clean
from services.recursion.runs.log import Asked, ChildFact, Stepped
from services.rlm.events import Code, LmCompleted, RlmEvent

_DETAIL_CHARS = 120


class ChildSink:
    """Turns a child's RLM events into facts of its run; events come from any thread."""

    def __init__(
        self, index: int, child_id: str, append: Callable[[ChildFact], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Make a sink.

        Args:
            index: the child's place in its call.
            child_id: the child's id.
            append: takes the facts, on the loop.
            loop: where `append` is called.
        """
        self._index = index
        self._child_id = child_id
        self._append = append
        self._loop = loop
        self.iterations = 0

    def emit(self, event: RlmEvent) -> None:
        """Take an event; never blocks and never raises."""
        fact = self._fact(event)
        if fact is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._append, fact)
        except RuntimeError:
            # The loop is closed: the service has ended, and nobody is left to hear of it.
            return

    def _fact(self, event: RlmEvent) -> ChildFact | None:
        if isinstance(event, Code):
            self.iterations = max(self.iterations, event.iteration)
            return Stepped(self._index, self._child_id, event.iteration, _few_words(event.text))
        if isinstance(event, LmCompleted):
            return Asked(
                index=self._index,
                child_id=self._child_id,
                model=event.model,
                purpose=event.purpose,
                prompt_tokens=event.prompt_tokens,
                completion_tokens=event.completion_tokens,
                duration_ms=event.duration_ms,
                error=event.error,
            )
        return None


def _few_words(code: str) -> str:
    first = next((line.strip() for line in code.splitlines() if line.strip()), "")
    text = clean(first.lstrip("# "))
    return text if len(text) <= _DETAIL_CHARS else text[: _DETAIL_CHARS - 1] + "…"
