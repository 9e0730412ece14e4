"""What happens inside one RLM invocation, as plain facts for whoever records them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from services.rlm.budget.gate import Dimension

Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True)
class IterationStarted:
    """A step of the loop began: the model is about to be asked for its action.

    Attributes:
        iteration: 1, 2, 3 …
        of: how many there may be.
    """

    iteration: int
    of: int


@dataclass(frozen=True)
class IterationCompleted:
    """A step of the loop ended.

    Attributes:
        iteration: 1, 2, 3 …
        duration_ms: wall clock of the whole step, the model's time included.
        code_sha256: SHA-256 of the code that ran, hexadecimal; empty when none ran.
    """

    iteration: int
    duration_ms: int
    code_sha256: str


@dataclass(frozen=True)
class Reasoning:
    """What the model thought before it wrote a step's code, in full."""

    iteration: int
    text: str


@dataclass(frozen=True)
class Code:
    """A step's code as it runs, in full."""

    iteration: int
    text: str


@dataclass(frozen=True)
class OutputDelta:
    """Something was printed while a step runs; pieces are coalesced and bounded."""

    iteration: int
    stream: Stream
    text: str


@dataclass(frozen=True)
class OutputFinal:
    """What a step's execution gave in the end.

    Attributes:
        iteration: the step.
        text: the text that the model sees; for a SUBMIT, what was printed before it.
        truncated: whether the printed output was cut.
        full_length: bytes printed in all.
        error: whether the step ended with an error that the model sees.
    """

    iteration: int
    text: str
    truncated: bool
    full_length: int
    error: bool


@dataclass(frozen=True)
class LmCalled:
    """A model is being asked.

    Attributes:
        call_id: pairs with the completed event.
        role: `root`, `sub` or `child`.
        model: the model's id as configured.
        purpose: `action`, `extract`, `llm_query`, `re-ask 1`, `re-ask 2`.
    """

    call_id: str
    role: str
    model: str
    purpose: str


@dataclass(frozen=True)
class LmCompleted:
    """A model has answered, or failed to.

    Attributes:
        call_id: pairs with the called event.
        role: as in the called event.
        model: as in the called event.
        purpose: as in the called event.
        prompt_tokens: as the provider counted them.
        completion_tokens: as the provider counted them.
        duration_ms: wall clock of the request.
        error: empty, or the kind of failure in a few public words.
    """

    call_id: str
    role: str
    model: str
    purpose: str
    prompt_tokens: int
    completion_tokens: int
    duration_ms: int
    error: str


@dataclass(frozen=True)
class ToolCalled:
    """Sandbox code called a host tool; `input` is its arguments as JSON, cut at 2 KiB."""

    call_id: str
    tool: str
    input: str


@dataclass(frozen=True)
class ToolCompleted:
    """A host tool returned.

    Attributes:
        call_id: pairs with the called event.
        tool: the tool's name.
        output: its result as JSON, cut at 2 KiB.
        error: empty, or what the sandbox code was told.
        duration_ms: wall clock of the call.
    """

    call_id: str
    tool: str
    output: str
    error: str
    duration_ms: int


@dataclass(frozen=True)
class BudgetUpdated:
    """A dimension of the budget after a reservation or a refund."""

    dimension: Dimension
    used: int
    limit: int


@dataclass(frozen=True)
class BudgetExhausted:
    """A dimension ran out; sent once a dimension. `finalizes` says whether the invocation ends because of it."""

    dimension: Dimension
    finalizes: bool


@dataclass(frozen=True)
class Warned:
    """Something a person should know; the invocation goes on. `code` is short, such as `state_lost`."""

    code: str
    message: str


RlmEvent = (
    IterationStarted
    | IterationCompleted
    | Reasoning
    | Code
    | OutputDelta
    | OutputFinal
    | LmCalled
    | LmCompleted
    | ToolCalled
    | ToolCompleted
    | BudgetUpdated
    | BudgetExhausted
    | Warned
)


class EventSink(Protocol):
    """Takes events from any thread."""

    def emit(self, event: RlmEvent) -> None:
        """Take `event`; never blocks and never raises."""
