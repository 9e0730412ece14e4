"""One request and its answer: states, transitions and the facts that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from services.session.attachments.attachment import Attachment
from services.session.sessions.session import Session
from services.session.turns.spending import BudgetLine, JsonValue, Limits, Spent, Usage


class TurnState(StrEnum):
    """Where a Turn is in its life; the last four are ends."""

    QUEUED = "QUEUED"
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    FINALIZING = "FINALIZING"
    SETTLING = "SETTLING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"

    @property
    def terminal(self) -> bool:
        """Whether it is an end."""
        return self in TERMINAL

    def may_become(self, target: TurnState) -> bool:
        """Whether a Turn in this state may enter `target`."""
        return target in _NEXT[self]


ACTIVE = (TurnState.QUEUED, TurnState.PREPARING, TurnState.RUNNING, TurnState.FINALIZING, TurnState.SETTLING)
"""The states of a running Turn, in order."""

UNANSWERED = (TurnState.FAILED, TurnState.CANCELLED, TurnState.TIMED_OUT)
"""The ends without an answer: each may follow any running state."""

TERMINAL = (TurnState.COMPLETED, *UNANSWERED)
"""All ends."""

_NEXT: Mapping[TurnState, frozenset[TurnState]] = {
    TurnState.QUEUED: frozenset({TurnState.PREPARING, *UNANSWERED}),
    TurnState.PREPARING: frozenset({TurnState.RUNNING, *UNANSWERED}),
    TurnState.RUNNING: frozenset({TurnState.FINALIZING, TurnState.SETTLING, *UNANSWERED}),
    TurnState.FINALIZING: frozenset({TurnState.SETTLING, *UNANSWERED}),
    TurnState.SETTLING: frozenset({TurnState.COMPLETED, *UNANSWERED}),
    **{end: frozenset[TurnState]() for end in TERMINAL},
}


class Termination(StrEnum):
    """How an answer was taken: by the model's SUBMIT, or by the RLM's extract predictor."""

    SUBMIT = "submit"
    EXTRACT = "extract"


@dataclass(frozen=True)
class TurnError:
    """Why a Turn ended without an answer.

    Attributes:
        reason: a name of `fleet.common.v1.ErrorReason` without its prefix.
        message: the cause, fit for anybody: no secrets, paths or model output.
    """

    reason: str
    message: str


@dataclass(frozen=True)
class SkillSelection:
    """A Skill that a Turn asks for, in the version that the client has seen."""

    id: str
    version: str


@dataclass(frozen=True)
class TurnInput:
    """All that a client chooses about a Turn; the same request id must bring the same.

    Attributes:
        text: the question.
        attachments: ids in the client's order, unique.
        skills: Skills to load before the first step.
        limits: lower limits; 0 keeps the policy's.
        timeout_seconds: a shorter time, or None.
    """

    text: str
    attachments: tuple[str, ...] = ()
    skills: tuple[SkillSelection, ...] = ()
    limits: Limits = field(default_factory=Limits)
    timeout_seconds: float | None = None


@dataclass(frozen=True)
class Turn:
    """One request and, when it has ended well, its answer.

    Attributes:
        id: unique everywhere.
        session: id of its Session.
        workspace: the tenant it belongs to.
        request_id: chosen by the client; unique in the Session.
        fingerprint: SHA-256 of its input, hexadecimal.
        epoch: the Session's ownership epoch that it was admitted under.
        state: where it is in its life.
        input: what the client chose.
        limits: the limits in force.
        create_time: UTC, of its admission.
        start_time: UTC, of the start of its preparation.
        end_time: UTC.
        answer: set by the commit, as are outputs, termination and checkpoint_version.
        outputs: all typed outputs, the answer included.
        checkpoint_version: committed Turns of the Session after this one.
        usage: what was used, by model.
        budget: limits and what is spent, by dimension.
        iterations: steps of the Root's loop so far.
        trace_id: 32 hexadecimal digits, or empty.
        error: why it ended without an answer.
    """

    id: str
    session: str
    workspace: str
    request_id: str
    fingerprint: str
    epoch: int
    state: TurnState
    input: TurnInput
    limits: Limits
    create_time: datetime
    start_time: datetime | None = None
    end_time: datetime | None = None
    answer: str | None = None
    outputs: Mapping[str, JsonValue] | None = None
    termination: Termination | None = None
    checkpoint_version: int | None = None
    usage: Usage = field(default_factory=Usage)
    budget: tuple[BudgetLine, ...] = ()
    iterations: int = 0
    trace_id: str = ""
    error: TurnError | None = None

    @property
    def name(self) -> str:
        """`sessions/{id}/turns/{id}`."""
        return f"sessions/{self.session}/turns/{self.id}"


@dataclass(frozen=True)
class TurnJob:
    """A Turn that was admitted and is to be run.

    Attributes:
        turn: as it was stored; its limits are in force.
        session: as it was at admission.
        epoch: the ownership epoch that every write names.
        attachments: in the client's order.
        deadline: end of the Turn's time, in seconds of the monotonic clock.
    """

    turn: Turn
    session: Session
    epoch: int
    attachments: tuple[Attachment, ...]
    deadline: float

    @property
    def workspace(self) -> str:
        """The tenant."""
        return self.turn.workspace


@dataclass(frozen=True)
class Commit:
    """What a Turn leaves when it ends well.

    Attributes:
        answer: not blank.
        outputs: all typed outputs, the answer included; finite JSON.
        termination: how the answer was taken.
        spent: the account.
        trace_id: 32 hexadecimal digits, or empty.
    """

    answer: str
    outputs: Mapping[str, JsonValue]
    termination: Termination
    spent: Spent = field(default_factory=Spent)
    trace_id: str = ""


@dataclass(frozen=True)
class TurnEnd:
    """What a Turn leaves when it ends without an answer.

    Attributes:
        state: FAILED, CANCELLED or TIMED_OUT.
        error: why.
        spent: the account.
        trace_id: 32 hexadecimal digits, or empty.
    """

    state: TurnState
    error: TurnError
    spent: Spent = field(default_factory=Spent)
    trace_id: str = ""

    def __post_init__(self) -> None:
        if self.state not in UNANSWERED:
            raise ValueError(f"{self.state} is not an end without an answer")


@dataclass(frozen=True)
class HistoryRecord:
    """One committed Turn as later Turns see it."""

    request: str
    answer: str
