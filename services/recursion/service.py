"""The use cases of the recursion service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.request_context import Principal
from services.common.tokens import Claims, TokenSigner
from services.recursion import identity
from services.recursion.budget.books import Books
from services.recursion.budget.changes import Changes
from services.recursion.budget.ledger import Ledger, Line, check_limits, out_of_time
from services.recursion.budget.settlement import Settlement
from services.recursion.children.run import Place
from services.recursion.children.tasks import Task
from services.recursion.reaper import Reaper
from services.recursion.runs.following import follow
from services.recursion.runs.live import Runs
from services.recursion.runs.log import Part, RunLog
from services.recursion.store.children import ChildStore
from services.recursion.store.ledgers import LedgerStore
from services.rlm.budget.gate import Dimension

_TOKEN_SLACK_SECONDS = 600.0
"""How long a Turn's token outlives the Turn's deadline, for its settlement."""


@dataclass(frozen=True)
class ChildrenCall:
    """A call for children: its id, the tasks in order, and where result files go."""

    turn: str
    call_id: str
    tasks: tuple[Task, ...]
    place: Place

    def digest(self) -> str:
        """SHA-256 of what is asked for, hexadecimal."""
        asked = [[task.task, list(task.inputs), task.context] for task in self.tasks]
        text = json.dumps([asked, self.place.root.lease, self.place.scratch_path], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class RecursionService:
    """Keeps every Turn's books and runs its children."""

    def __init__(
        self,
        *,
        ledgers: LedgerStore,
        books: Books,
        children: ChildStore,
        runs: Runs,
        settlement: Settlement,
        reaper: Reaper,
        changes: Changes,
        signer: TokenSigner,
        clock: Clock,
        recursion_enabled: bool,
    ) -> None:
        """Begin.

        Args:
            ledgers: the books.
            books: grants and takes back units.
            children: the children's rows.
            runs: the children on this replica.
            settlement: ends ledgers.
            reaper: says how long rows are held.
            changes: tells of children's ends.
            signer: signs the Turns' tokens.
            clock: tells the time.
            recursion_enabled: whether the policy lets a Root start children.
        """
        self._ledgers = ledgers
        self._books = books
        self._children = children
        self._runs = runs
        self._settlement = settlement
        self._reaper = reaper
        self._changes = changes
        self._signer = signer
        self._clock = clock
        self._recursion_enabled = recursion_enabled

    async def open_turn(self, caller: Principal, ledger: Ledger) -> tuple[Ledger, str]:
        """Open a ledger, or find it open on the same terms; returns it with the Turn's token.

        Raises:
            FleetError: PERMISSION_DENIED, INVALID_ARGUMENT, LEDGER_CONFLICT or LEDGER_CLOSED.
        """
        identity.check_opener(caller)
        check_limits(ledger.lines)
        opened = await self._ledgers.open(ledger)
        claims = Claims(ledger.workspace, caller.subject, ledger.session, ledger.turn, depth=0)
        left = max(0.0, (ledger.deadline - self._clock.now()).total_seconds())
        return opened, self._signer.sign(claims, left + _TOKEN_SLACK_SECONDS)

    async def reserve(self, caller: Principal, turn: str, reservation: str, dimension: Dimension, amount: int) -> Line:
        """Grant all of `amount` or nothing; the same reservation id counts once.

        Raises:
            FleetError: PERMISSION_DENIED, or see `Books.reserve`.
        """
        identity.check_turn(caller, turn)
        return await self._books.reserve(turn, reservation, dimension, amount)

    async def refund(self, caller: Principal, turn: str, reservation: str, unused: int) -> Line:
        """Take back units of a reservation, `unused` of them in all.

        Raises:
            FleetError: PERMISSION_DENIED, or see `Books.refund`.
        """
        identity.check_turn(caller, turn)
        return await self._books.refund(turn, reservation, unused)

    async def budget(self, caller: Principal, turn: str) -> tuple[Ledger, list[str]]:
        """Return a Turn's books and its unresolved children.

        Raises:
            FleetError: PERMISSION_DENIED or LEDGER_NOT_FOUND.
        """
        identity.check_turn(caller, turn)
        ledger = identity.check_workspace(caller, await self._ledgers.get(turn))
        return ledger, await self._ledgers.unresolved(turn)

    async def settle(self, caller: Principal, turn: str, patience: float | None) -> Ledger:
        """Settle a Turn's books; see `Settlement.settle`.

        Raises:
            FleetError: PERMISSION_DENIED, or what `Settlement.settle` raises.
        """
        identity.check_root(caller, turn)
        identity.check_workspace(caller, await self._ledgers.get(turn))
        return await self._settlement.settle(turn, patience)

    async def abort(self, caller: Principal, turn: str, epoch: int) -> tuple[Ledger, list[str]]:
        """Abort a Turn's books and its children; see `Settlement.abort`.

        Raises:
            FleetError: PERMISSION_DENIED, or what `Settlement.abort` raises.
        """
        identity.check_aborter(caller, turn)
        identity.check_workspace(caller, await self._ledgers.get(turn))
        ledger = await self._settlement.abort(turn, epoch)
        return ledger, await self._ledgers.unresolved(turn)

    async def run_children(self, caller: Principal, call: ChildrenCall) -> AsyncGenerator[Part]:
        """Run children, or attach to the call of that id: its facts from the first on, then all outcomes.

        The run goes on when nobody listens.

        Raises:
            FleetError: DEPTH_LIMIT, PERMISSION_DENIED, RECURSION_DISABLED, LEDGER_NOT_FOUND, LEDGER_CLOSED,
                BUDGET_EXHAUSTED, RESERVATION_CONFLICT, or what was fatal to the run.
        """
        identity.check_depth(caller, call.turn)
        if not self._recursion_enabled:
            raise FleetError("RECURSION_DISABLED", "This deployment's policy has recursion off.")
        log = await self._admit(caller, call)
        if log is None:
            async for part in follow(self._children, self._changes, call.turn, call.call_id):
                yield part
            return
        async for fact in log.facts():
            yield fact
        yield log.outcomes()

    async def _admit(self, caller: Principal, call: ChildrenCall) -> RunLog | None:
        """Write the call down and start it, or find its log; None when it is known but not of this replica."""
        ledger = identity.check_workspace(caller, await self._ledgers.get(call.turn))
        async with self._runs.turn(ledger).admission:
            if self._clock.now() >= ledger.work_deadline and await self._children.call(call.turn, call.call_id) is None:
                raise out_of_time(ledger.limit(Dimension.SECONDS))
            known, fresh = await self._children.begin_call(
                call.turn, call.call_id, call.digest(), len(call.tasks), self._reaper.claim()
            )
            if fresh:
                return self._runs.start(ledger, known, call.tasks, call.place)
            return self._runs.find(call.turn, call.call_id)
