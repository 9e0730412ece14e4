"""Whatever ends an RLM becomes one error with a public message."""

from __future__ import annotations

import asyncio
import socket
import ssl

import dspy
import pytest
from dspy.primitives.code_interpreter import CodeInterpreterError

from services.common.errors import FleetError
from services.rlm.failures import to_fleet_error
from services.rlm.models.model_errors import read_model_error
from services.rlm.models.provider_line import LineCut

SECRET = "sk-secret https://user:pw@host/path /srv/file"


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        (dspy.LMAuthError(SECRET, status=401), "MODEL_UNAUTHENTICATED", "credential (HTTP 401)"),
        (dspy.LMRateLimitError(SECRET, status=429), "MODEL_RATE_LIMITED", "rate of requests (HTTP 429)"),
        (dspy.LMTimeoutError(SECRET), "MODEL_UNAVAILABLE", "did not answer in time"),
        (dspy.LMServerError(SECRET, status=500), "MODEL_UNAVAILABLE", "failed (HTTP 500)"),
        (dspy.LMServerError(SECRET), "MODEL_UNAVAILABLE", "to send a valid response"),
        (dspy.LMUnsupportedModelError(SECRET, status=404), "MODEL_REQUEST_REJECTED", "does not know the model"),
        (dspy.LMInvalidRequestError(SECRET, status=400), "MODEL_REQUEST_REJECTED", "(HTTP 400)"),
        (dspy.LMBillingError(SECRET, status=402), "MODEL_REQUEST_REJECTED", "payment"),
        (dspy.LMConfigurationError(SECRET), "MODEL_REQUEST_REJECTED", "settings"),
        (dspy.LMNotConfiguredError(SECRET), "MODEL_UNAUTHENTICATED", "credential"),
        (dspy.LMUnexpectedError(SECRET), "MODEL_UNAVAILABLE", "failed"),
        (dspy.ContextWindowExceededError(message=SECRET), "MODEL_CONTEXT_EXCEEDED", "context window"),
        (_caused(dspy.LMTransportError(SECRET), ConnectionRefusedError(SECRET)), "MODEL_UNAVAILABLE", "refused"),
        (_caused(dspy.LMTransportError(SECRET), socket.gaierror(SECRET)), "MODEL_UNAVAILABLE", "host name not found"),
        (_caused(dspy.LMTransportError(SECRET), ssl.SSLError(SECRET)), "MODEL_UNAVAILABLE", "TLS"),
        (_caused(dspy.LMServerError(SECRET), LineCut(sent=True)), "TURN_TIMED_OUT", "deadline"),
        (CodeInterpreterError(SECRET), "INTERPRETER_FAILED", "sandbox"),
        (asyncio.CancelledError(SECRET), "TURN_CANCELLED", "cancelled"),
        (RuntimeError(SECRET), "INTERNAL", "unexpected"),
    ],
)
def test_reasons_and_messages(error: BaseException, reason: str, words: str) -> None:
    failure = to_fleet_error(error)
    assert failure.reason == reason
    assert words in failure.message
    for hidden in SECRET.split():
        assert hidden not in str(failure)
        assert hidden not in repr(dict(failure.metadata))


def test_an_error_of_the_one_type_is_itself() -> None:
    error = FleetError("TURN_TIMED_OUT", "late")
    assert to_fleet_error(error) is error


def test_the_status_wins_over_words_in_the_text() -> None:
    failure = read_model_error(dspy.LMTimeoutError("connection timeout", status=401))
    assert failure is not None
    assert (str(failure.kind), failure.status) == ("credential refused", 401)


def test_roles_are_named() -> None:
    assert "child's model" in to_fleet_error(dspy.LMTimeoutError("x"), "child").message
    assert to_fleet_error(dspy.LMTimeoutError("x"), "child").metadata["role"] == "child"


def test_ids_that_hold_more_than_an_id_are_left_out() -> None:
    good = to_fleet_error(dspy.LMServerError("x", status=500, request_id="req_12-a"))
    bad = to_fleet_error(dspy.LMServerError("x", status=500, request_id="req\nsecret value"))
    assert good.metadata["provider_request_id"] == "req_12-a"
    assert "provider_request_id" not in bad.metadata
