"""The recursion service as a running Turn uses it: its ledger, its children, its settlement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import grpc
from fleet.common.v1 import budget_pb2
from fleet.recursion.v1 import ledger_pb2, recursion_service_pb2, recursion_service_pb2_grpc
from google.protobuf.timestamp_pb2 import Timestamp

from services.common.rpc_status import translated_errors
from services.rlm.budget.gate import Dimension, from_wire, to_wire
from services.session.turns.spending import BudgetLine


@dataclass(frozen=True)
class TurnTerms:
    """What a Turn's ledger is opened with.

    Attributes:
        turn: the Turn's id.
        session: the Session's id.
        epoch: the Session's ownership epoch.
        limits: units by dimension.
        deadline: when the Turn ends at the latest.
        work_deadline: when new work ends.
    """

    turn: str
    session: str
    epoch: int
    limits: Mapping[str, int]
    deadline: datetime
    work_deadline: datetime


class TurnBooks:
    """One open ledger; every call carries the Turn's own token."""

    def __init__(self, stub: recursion_service_pb2_grpc.RecursionServiceAsyncStub, turn: str, token: str) -> None:
        """The ledger of `turn`, with the token that opening it gave."""
        self.stub = stub
        self.turn = turn
        self.token = token

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The credential of every call about this Turn."""
        return (("authorization", f"Bearer {self.token}"),)

    async def budget(self) -> tuple[BudgetLine, ...]:
        """What is spent.

        Raises:
            FleetError: the service can't be reached.
        """
        request = recursion_service_pb2.GetBudgetRequest(turn=self.turn)
        with translated_errors():
            return to_lines(await self.stub.GetBudget(request, metadata=self.metadata))

    async def run_children(
        self, request: recursion_service_pb2.RunChildrenRequest
    ) -> AsyncIterator[recursion_service_pb2.RunChildrenResponse]:
        """Run children, or attach to their run; events, then outcomes.

        Raises:
            FleetError: the call was refused, or UNAVAILABLE when the connection broke.
        """
        call = self.stub.RunChildren(request, metadata=self.metadata)
        try:
            with translated_errors():
                async for response in call:
                    yield response
        finally:
            call.cancel()

    async def settle(self, seconds: float) -> tuple[BudgetLine, ...]:
        """Stop granting and wait until every child and its sandbox is confirmed gone.

        Raises:
            FleetError: CHILDREN_UNRESOLVED, the service can't be reached, or no answer in `seconds`.
        """
        request = recursion_service_pb2.SettleTurnRequest(turn=self.turn)
        with translated_errors():
            return to_lines(await self.stub.SettleTurn(request, metadata=self.metadata, timeout=seconds))

    async def abort(self, epoch: int, seconds: float) -> tuple[BudgetLine, ...]:
        """Stop granting and cancel the children.

        Raises:
            FleetError: the service did not answer in `seconds`.
        """
        request = recursion_service_pb2.AbortTurnRequest(turn=self.turn, epoch=epoch)
        with translated_errors():
            return to_lines(await self.stub.AbortTurn(request, metadata=self.metadata, timeout=seconds))


class RecursionClient:
    """Opens ledgers, and ends those of Turns whose token is lost."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Use `channel`, which adds the service's own token where a call brings none."""
        self._stub = recursion_service_pb2_grpc.RecursionServiceStub(channel)

    async def open(self, terms: TurnTerms) -> TurnBooks:
        """Open a Turn's ledger before its first model call.

        Raises:
            FleetError: LEDGER_CONFLICT, or the service can't be reached.
        """
        request = recursion_service_pb2.OpenTurnRequest(
            turn=terms.turn,
            session=terms.session,
            epoch=terms.epoch,
            limits=[
                budget_pb2.BudgetLine(dimension=to_wire(Dimension(name)), limit=limit)
                for name, limit in terms.limits.items()
            ],
            deadline=_timestamp(terms.deadline),
            work_deadline=_timestamp(terms.work_deadline),
        )
        with translated_errors():
            response = await self._stub.OpenTurn(request)
        return TurnBooks(self._stub, terms.turn, response.turn_token)

    async def abort(self, turn: str, epoch: int, seconds: float) -> tuple[BudgetLine, ...]:
        """Abort the ledger of a Turn under a newer epoch, with the service's own token.

        Raises:
            FleetError: LEDGER_NOT_FOUND when the Turn never opened one, or the service did not answer in `seconds`.
        """
        request = recursion_service_pb2.AbortTurnRequest(turn=turn, epoch=epoch)
        with translated_errors():
            return to_lines(await self._stub.AbortTurn(request, timeout=seconds))


def to_lines(books: ledger_pb2.Budget) -> tuple[BudgetLine, ...]:
    """The lines of a ledger."""
    return tuple(BudgetLine(str(from_wire(line.dimension)), line.used, line.limit) for line in books.lines)


def _timestamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
