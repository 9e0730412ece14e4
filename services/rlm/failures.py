"""Turns whatever ends an RLM into the one error type, with a message that may be shown."""

from __future__ import annotations

import asyncio
import concurrent.futures

from services.common.errors import FleetError
from services.rlm.models.model_errors import ModelError, ModelErrorKind, called_off, read_model_error

_REASONS = {
    ModelErrorKind.UNREADABLE: "MODEL_OUTPUT_INVALID",
    ModelErrorKind.TIMEOUT: "MODEL_UNAVAILABLE",
    ModelErrorKind.TRANSPORT: "MODEL_UNAVAILABLE",
    ModelErrorKind.SERVER: "MODEL_UNAVAILABLE",
    ModelErrorKind.RATE_LIMITED: "MODEL_RATE_LIMITED",
    ModelErrorKind.UNAUTHENTICATED: "MODEL_UNAUTHENTICATED",
    ModelErrorKind.UNPAID: "MODEL_REQUEST_REJECTED",
    ModelErrorKind.UNKNOWN_MODEL: "MODEL_REQUEST_REJECTED",
    ModelErrorKind.REJECTED: "MODEL_REQUEST_REJECTED",
    ModelErrorKind.CONTEXT: "MODEL_CONTEXT_EXCEEDED",
    ModelErrorKind.OTHER: "MODEL_UNAVAILABLE",
}

_SENTENCES = {
    ModelErrorKind.UNREADABLE: "{who}'s replies stayed empty or unreadable after the bounded re-asks.",
    ModelErrorKind.TIMEOUT: "{who}'s provider did not answer in time{status}.",
    ModelErrorKind.TRANSPORT: "{who}'s provider could not be reached{detail}.",
    ModelErrorKind.SERVER: "{who}'s provider failed{status}.",
    ModelErrorKind.RATE_LIMITED: "{who}'s provider limits the rate of requests{status}.",
    ModelErrorKind.UNAUTHENTICATED: "{who}'s provider refused the server's credential{status}.",
    ModelErrorKind.UNPAID: "{who}'s provider refused the request for lack of quota or payment{status}.",
    ModelErrorKind.UNKNOWN_MODEL: "{who}'s provider does not know the model or the path{status}.",
    ModelErrorKind.REJECTED: "{who}'s provider or its settings refused the request{status}.",
    ModelErrorKind.CONTEXT: "The prompt outgrew the context window of {who}.",
    ModelErrorKind.OTHER: "The call of {who} failed{status}.",
}

_WHO = {"root": "the Root model", "sub": "the Sub model", "child": "the child's model"}


def to_fleet_error(error: BaseException, role: str = "root") -> FleetError:
    """Return `error` as a `FleetError` whose message holds no secret, URL, path, prompt or completion.

    Args:
        error: what was raised.
        role: the model role whose call it ended: `root`, `sub` or `child`.
    """
    if isinstance(error, FleetError):
        return error
    if isinstance(error, asyncio.CancelledError | concurrent.futures.CancelledError):
        return FleetError("TURN_CANCELLED", "The Turn was cancelled.")
    if called_off(error) is not None:
        # A cancelled invocation has its own reason, which its owner tells; what is left is that there was no time.
        return FleetError("TURN_TIMED_OUT", "The Turn reached its deadline during a model call.")
    failure = read_model_error(error)
    if failure is not None:
        return _model_failure(failure, role)
    kinds = {each.__name__ for each in type(error).__mro__}
    if kinds & {"CodeInterpreterError", "CodeExecutionError", "ConnectionError", "EOFError"}:
        return FleetError("INTERPRETER_FAILED", "The sandbox or its channel failed in the middle of the Turn.")
    return FleetError("INTERNAL", "The RLM stopped with an unexpected error; the server's log has the cause.")


def _model_failure(failure: ModelError, role: str) -> FleetError:
    sentence = _SENTENCES[failure.kind].format(
        who=_WHO.get(role, "the model"),
        status=f" (HTTP {failure.status})" if failure.status else "",
        detail=f": {failure.detail}" if failure.detail else "",
    )
    if failure.kind is ModelErrorKind.SERVER and not failure.status:
        sentence = sentence.removesuffix(".") + " to send a valid response."
    metadata = {"role": role, "model": failure.model, "provider_request_id": failure.request_id}
    if failure.status:
        metadata["http_status"] = str(failure.status)
    return FleetError(
        _REASONS[failure.kind],
        sentence[0].upper() + sentence[1:],
        {key: value for key, value in metadata.items() if value},
        retry_after=failure.retry_after,
    )
