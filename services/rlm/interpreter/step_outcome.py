"""How a step ended: for the model, for the record and for the events."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleet.sandbox.v1 import attach_pb2
from pydantic import JsonValue

from services.rlm.contract.outputs import OutputContract, OutputError
from services.rlm.events import OutputFinal
from services.rlm.interpreter.observation import NO_OUTPUT, clip, observe
from services.rlm.interpreter.values import loads


@dataclass(frozen=True)
class StepOutcome:
    """A finished step.

    Attributes:
        text: what the model sees; for a SUBMIT, what was printed before it.
        outputs: SUBMIT's typed values, or None when the step was not final.
        error: whether the model sees an error.
        syntax: whether the code was not Python.
        truncated: whether the printed output was cut.
        full_length: bytes printed in all.
    """

    text: str
    outputs: dict[str, JsonValue] | None = None
    error: bool = False
    syntax: bool = False
    truncated: bool = False
    full_length: int = 0

    @property
    def recorded(self) -> str:
        """The step's output in the words in which native RLM would record it."""
        if self.outputs is not None:
            return f"FINAL: {self.outputs}"
        if self.error:
            return f"[Error] {self.text}"
        return self.text or NO_OUTPUT

    def with_notice(self, notice: str, max_chars: int) -> StepOutcome:
        """Return the outcome with a notice to the model at its end, within `max_chars`."""
        if not notice:
            return self
        text = clip(self.text, max(0, max_chars - len(notice) - 1))
        return replace(self, text=f"{text}\n{notice}" if text else notice)

    def event(self, iteration: int) -> OutputFinal:
        """Return the outcome as an event of step `iteration`."""
        return OutputFinal(iteration, self.text, self.truncated, self.full_length, self.error)


def interrupted() -> StepOutcome:
    """Return the outcome of a step that was interrupted and brought nothing back."""
    return StepOutcome("The step was interrupted; it gave no output in time.", error=True)


def outcome_of(done: attach_pb2.Done, max_chars: int, contract: OutputContract | None) -> StepOutcome:
    """Return the outcome of an execution, with SUBMIT's values checked against `contract`."""
    cut = done.truncated or len(done.output) > max_chars
    if done.status == attach_pb2.EXECUTION_STATUS_FINAL:
        printed = clip(done.output, max_chars, done.output_bytes if done.truncated else None)
        try:
            outputs = _checked(done.final, contract)
        except OutputError as error:
            text = clip(f"{printed}\nSUBMIT was refused: {error}".strip(), max_chars)
            return StepOutcome(text, error=True, truncated=cut, full_length=done.output_bytes)
        return StepOutcome(printed, outputs, truncated=cut, full_length=done.output_bytes)
    seen = observe(done, max_chars)
    return StepOutcome(seen.text, error=seen.error, syntax=seen.syntax, truncated=cut, full_length=done.output_bytes)


def _checked(final: bytes, contract: OutputContract | None) -> dict[str, JsonValue]:
    try:
        outputs = loads(final)
    except ValueError as error:
        raise OutputError("the values are not JSON.") from error
    if not isinstance(outputs, dict):
        raise OutputError("the values are not an object.")
    return contract.check(outputs) if contract is not None else outputs
