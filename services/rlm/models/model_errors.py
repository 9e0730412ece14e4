"""What went wrong in a model call, told from DSPy's and litellm's exceptions."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from services.rlm.models.provider_line import LineCut
from services.rlm.models.provider_replies import retry_after

_MAX_CAUSES = 12
_REQUEST_ID = re.compile(r"^[\w.:-]{1,80}$")


class ModelErrorKind(StrEnum):
    """The kinds of failure that are treated differently; the value is what people read in events."""

    UNREADABLE = "unreadable reply"
    TIMEOUT = "timeout"
    TRANSPORT = "connection failed"
    SERVER = "provider failed"
    RATE_LIMITED = "rate limited"
    UNAUTHENTICATED = "credential refused"
    UNPAID = "quota or payment"
    UNKNOWN_MODEL = "unknown model"
    REJECTED = "request refused"
    CONTEXT = "context window exceeded"
    OTHER = "failed"


_STATUS_KINDS = {
    401: ModelErrorKind.UNAUTHENTICATED,
    402: ModelErrorKind.UNPAID,
    403: ModelErrorKind.UNAUTHENTICATED,
    404: ModelErrorKind.UNKNOWN_MODEL,
    408: ModelErrorKind.TIMEOUT,
    429: ModelErrorKind.RATE_LIMITED,
}

_CLASS_KINDS = {
    "ContextWindowExceededError": ModelErrorKind.CONTEXT,
    "AdapterParseError": ModelErrorKind.UNREADABLE,
    "LMAuthError": ModelErrorKind.UNAUTHENTICATED,
    "LMNotConfiguredError": ModelErrorKind.UNAUTHENTICATED,
    "LMBillingError": ModelErrorKind.UNPAID,
    "LMRateLimitError": ModelErrorKind.RATE_LIMITED,
    "LMTimeoutError": ModelErrorKind.TIMEOUT,
    "LMTransportError": ModelErrorKind.TRANSPORT,
    "LMServerError": ModelErrorKind.SERVER,
    "LMUnsupportedModelError": ModelErrorKind.UNKNOWN_MODEL,
    "LMConfigurationError": ModelErrorKind.REJECTED,
    "LMUnsupportedFeatureError": ModelErrorKind.REJECTED,
    "LMInvalidRequestError": ModelErrorKind.REJECTED,
    "LMError": ModelErrorKind.OTHER,
}

ASK_AGAIN = frozenset(
    {ModelErrorKind.TIMEOUT, ModelErrorKind.TRANSPORT, ModelErrorKind.SERVER, ModelErrorKind.RATE_LIMITED}
)
"""Failures of the provider that may pass when the same request is sent again."""


@dataclass(frozen=True)
class ModelError:
    """A model call's failure in public terms: no text of the provider, the prompt or the completion.

    Attributes:
        kind: what kind of failure.
        status: the HTTP status, or None when there was no response.
        model: the model's id as configured, or empty.
        detail: why a connection failed, in a few words, or empty.
        request_id: the provider's id of the request, or empty.
        retry_after: seconds after which the provider allows another request, or None.
    """

    kind: ModelErrorKind
    status: int | None = None
    model: str = ""
    detail: str = ""
    request_id: str = ""
    retry_after: float | None = None

    @property
    def brief(self) -> str:
        """The kind and the status in a few words, for events."""
        return f"{self.kind} (HTTP {self.status})" if self.status else self.detail or str(self.kind)


def read_model_error(error: BaseException) -> ModelError | None:
    """Return what `error` says about a model call, or None when it is no failure of one."""
    names = {each.__name__ for each in type(error).__mro__}
    known = next((kind for name, kind in _CLASS_KINDS.items() if name in names), None)
    if known is None:
        return None
    if known is ModelErrorKind.UNREADABLE:
        return ModelError(known)
    chain = tuple(_causes(error))
    status = _http_status(error, chain)
    return ModelError(
        kind=_kind(known, status),
        status=status,
        model=_model(error),
        detail=_detail(chain) if status is None else "",
        request_id=_request_id(error),
        retry_after=_retry_after(chain),
    )


def called_off(error: BaseException) -> LineCut | None:
    """Return the call-off that `error` comes from, whose cause is no provider, or None."""
    return next((cause for cause in _causes(error) if isinstance(cause, LineCut)), None)


def _kind(known: ModelErrorKind, status: int | None) -> ModelErrorKind:
    # DSPy reads words such as "timeout" out of the provider's text before it looks at the status, so the status wins.
    if known is ModelErrorKind.CONTEXT or status is None:
        return known
    if status in _STATUS_KINDS:
        return _STATUS_KINDS[status]
    if status >= 500:
        return ModelErrorKind.SERVER
    return ModelErrorKind.REJECTED if status >= 400 else known


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__


def _http_status(error: BaseException, chain: tuple[BaseException, ...]) -> int | None:
    """The status that the provider sent; litellm also gives one to failures without a response, or with a good one."""
    sent = [getattr(cause, "status_code", None) for cause in chain if type(cause).__module__.startswith("openai")]
    status = sent[-1] if sent else getattr(error, "status", None) if len(chain) == 1 else None
    return status if isinstance(status, int) and 100 <= status <= 599 else None


def _detail(chain: tuple[BaseException, ...]) -> str:
    for cause in chain:
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, socket.gaierror):
            return "host name not found"
        if isinstance(cause, ssl.SSLError):
            return "TLS failed"
        if isinstance(cause, ConnectionResetError) or type(cause).__name__ == "RemoteProtocolError":
            return "connection closed by the provider"
    return ""


def _model(error: BaseException) -> str:
    model = getattr(error, "model", None)
    return model.removeprefix("openai/") if isinstance(model, str) else ""


def _request_id(error: BaseException) -> str:
    found = getattr(error, "request_id", None)
    return found if isinstance(found, str) and _REQUEST_ID.match(found) else ""


def _retry_after(chain: tuple[BaseException, ...]) -> float | None:
    """What the provider's own response says: litellm drops its headers, and DSPy then finds none."""
    for cause in chain:
        headers = getattr(getattr(cause, "response", None), "headers", None) or {}
        seconds = retry_after(headers.get("retry-after", ""))
        if seconds is not None:
            return seconds
    return None
