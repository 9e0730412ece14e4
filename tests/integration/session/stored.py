"""Makes stored Sessions and Turns for store tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fleet.session.v1 import turn_event_pb2 as pb

from services.common.ids import new_id
from services.session.events import payloads as event_payloads
from services.session.events.turn_log import StoredEvent, make_event
from services.session.sessions.session import Session, SessionState
from services.session.store import Admitted, Ownership, Store
from services.session.turns.fingerprints import fingerprint
from services.session.turns.spending import BudgetLine, Limits, Spent, Usage
from services.session.turns.turn import Commit, Termination, Turn, TurnEnd, TurnError, TurnInput, TurnState

NOW = datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
LIMITS = Limits(12, 32, 256, 4, 2_000_000, 1_800)
COMMIT = Commit("42", {"answer": "42", "n": [1, None]}, Termination.EXTRACT, Spent(Usage(), (), 3), "cd" * 16)
FAILED = TurnEnd(TurnState.FAILED, TurnError("MODEL_UNAVAILABLE", "The provider is down."), Spent())


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


async def stored_session(store: Store, workspace: str = "local") -> Session:
    session = Session(new_id(), workspace, "", SessionState.ACTIVE, 0, NOW, NOW)
    await store.sessions.insert(session)
    return session


async def claim(store: Store, session: Session, owner: str = "a", at: float = 0, ttl: float = 60) -> Ownership:
    wanted = Ownership(session.id, owner, f"{owner}:1", 1, later(at + ttl))
    return await store.owners.claim(wanted, later(at))


def make_turn(session: Session, epoch: int, text: str = "?", attachments: tuple[str, ...] = ()) -> Turn:
    given = TurnInput(text, attachments)
    return Turn(
        id=new_id(),
        session=session.id,
        workspace=session.workspace,
        request_id=new_id(),
        fingerprint=fingerprint(given),
        epoch=epoch,
        state=TurnState.QUEUED,
        input=given,
        limits=LIMITS,
        create_time=NOW,
        budget=(BudgetLine("iterations", 0, 12),),
    )


async def admit(store: Store, turn: Turn) -> Admitted:
    first = make_event(turn.name, 1, NOW, "turn_started", event_payloads.started(turn, "root", "sub"))
    return await store.admission.admit(turn, [first])


async def running_turn(store: Store, session: Session, *, state: TurnState = TurnState.SETTLING) -> Turn:
    ownership = await claim(store, session)
    admitted = await admit(store, make_turn(session, ownership.epoch))
    turn = admitted.turn
    for step in (TurnState.PREPARING, TurnState.RUNNING, TurnState.SETTLING):
        if turn.state is state:
            break
        await store.turns.set_state(turn, turn.epoch, step, NOW)
        turn = replace(turn, state=step)
    return turn


def events(turn: Turn, *sequences: int) -> list[StoredEvent]:
    return [make_event(turn.name, n, NOW, "output", pb.StepOutput(iteration=1, text=str(n))) for n in sequences]
