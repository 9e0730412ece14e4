"""Steps 3 to 5 of a Turn's life: the RLM's invocation with its budget, tools and events, and its outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.common.errors import FleetError
from services.common.redaction import Redactor
from services.rlm.budget.ledger_gate import LedgerGate
from services.rlm.contract.outputs import SIZE_FACTOR
from services.rlm.invocation.scope import InvocationScope
from services.session.runner import TurnRecord
from services.session.running.children.outcomes import merged
from services.session.running.journal import TurnJournal
from services.session.running.preparation import Prepared, child_attachment
from services.session.running.tools.attachment import BlobReader
from services.session.running.tools.recursion import RecursionTools, RootLease
from services.session.running.tools.toolbox import handlers
from services.session.running.validation import check_outputs
from services.session.running.window import TurnWindow
from services.session.turns.spending import BudgetLine, JsonValue, ModelUsage, Spent, Usage
from services.session.turns.turn import TurnJob

if TYPE_CHECKING:
    from services.rlm.native import RlmOutcome

_CHILD_EVENTS_SECONDS = 2.0
"""How long the last events of children that have ended may take to arrive."""


@dataclass(frozen=True)
class InvocationParts:
    """What an invocation needs beside its preparation.

    Attributes:
        blobs: where attachments are.
        redactor: knows the secrets that no output may carry.
        recursion: whether the Root may start children.
        max_output_chars: what the model sees of one step's output.
    """

    blobs: BlobReader
    redactor: Redactor
    recursion: bool
    max_output_chars: int


class Invocation:
    """One run of the RLM for one Turn, and the account of what it spent."""

    def __init__(
        self,
        job: TurnJob,
        record: TurnRecord,
        window: TurnWindow,
        prepared: Prepared,
        parts: InvocationParts,
        on_ownership_lost: Callable[[FleetError], None],
    ) -> None:
        """Make the invocation's scope, tools and journal; must be made on the server's loop.

        Args:
            job: the Turn.
            record: where its events go.
            window: its time.
            prepared: its ledger, runtime and inputs.
            parts: what else it needs.
            on_ownership_lost: called when a write was refused because the Turn has another owner.
        """
        self._prepared = prepared
        self._parts = parts
        self._journal = TurnJournal(record, job.turn.limits.lines(), on_ownership_lost)
        loop = asyncio.get_running_loop()
        books = prepared.books
        self._scope = InvocationScope(
            sink=self._journal,
            gate=LedgerGate(books.stub, books.turn, loop, metadata=books.metadata),
            tools={},
            deadline=window.deadline,
            work_deadline=window.work_deadline,
            recursion=parts.recursion,
            max_iters=job.turn.limits.iterations,
        )
        self._children = self._recursion_tools(job) if parts.recursion else None
        self._scope.tools.update(
            handlers(prepared.history, job.attachments, parts.blobs, self._journal, self._children)
        )

    async def run(self) -> RlmOutcome:
        """Run the RLM.

        Raises:
            FleetError: why there is no answer.
        """
        self._journal.start()
        outcome = await self._prepared.checkout.resident.runtime.run(self._prepared.inputs, self._scope)
        await self._journal.close()
        return outcome

    def check(self, outcome: RlmOutcome) -> dict[str, JsonValue]:
        """The outputs as they are committed.

        Raises:
            FleetError: OUTPUT_INVALID.
        """
        return check_outputs(outcome.outputs, self._parts.max_output_chars * SIZE_FACTOR, self._parts.redactor)

    def cancel(self, failure: FleetError) -> None:
        """Stop the RLM at once, wherever it is."""
        self._scope.cancel(failure)

    async def finish(self, lines: Iterable[BudgetLine]) -> None:
        """Take the settled ledger's lines and the last events of children."""
        self.settled(lines)
        self._scope.end()
        if self._children is not None:
            await self._children.finish(_CHILD_EVENTS_SECONDS)

    async def abandon(self, failure: FleetError) -> None:
        """End everything without an answer; children without an end are told as cancelled."""
        self._scope.cancel(failure)
        self._scope.end()
        await self._journal.close()
        if self._children is not None:
            await self._children.close()

    def settled(self, lines: Iterable[BudgetLine]) -> None:
        """Take the ledger's own lines."""
        self._journal.settled(lines)

    def spent(self) -> Spent:
        """What was spent so far, children included."""
        own = [
            ModelUsage(use.role, use.model, use.calls, use.prompt_tokens, use.completion_tokens, use.cost_usd)
            for use in self._scope.usage()
        ]
        children = self._children
        uses = merged([*own, *(children.usage if children else ())])
        usage = Usage(uses, children.started if children else 0)
        return Spent(usage, self._journal.budget, self._journal.iterations)

    def _recursion_tools(self, job: TurnJob) -> RecursionTools:
        lease = self._prepared.checkout.resident.runtime.lease
        scratch = f"sessions/{job.turn.session}/turns/{job.turn.id}"
        return RecursionTools(
            self._prepared.books,
            RootLease(lease.name, lease.epoch, scratch),
            self._scope,
            self._journal.append,
            [child_attachment(attachment) for attachment in job.attachments],
        )
