"""The HTTP transport to a model provider: it can be cut, keeps to the clock, and lets no credential out of errors."""

from __future__ import annotations

import ssl
import time
import urllib.request
from dataclasses import dataclass

import httpx2

from services.rlm.models.provider_line import CONNECT_SECONDS, LineCut, Permit, ProviderLine
from services.rlm.models.provider_replies import RETRIED, fill_missing_text, redact_error, retry_delay, with_body

_LIMITS = httpx2.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=60.0)


@dataclass(frozen=True)
class ExchangeRules:
    """How requests are sent.

    Attributes:
        retries: how often a request that failed in passing is sent again.
        secrets: texts that an error must not carry.
        needs_text: whether a reply without text gets a marker instead.
    """

    retries: int
    secrets: tuple[str, ...] = ()
    needs_text: bool = False


class ProviderTransport(httpx2.BaseTransport):
    """Sends the requests of one line and returns whole replies."""

    def __init__(self, inner: httpx2.BaseTransport, line: ProviderLine, rules: ExchangeRules) -> None:
        """Send through `inner`."""
        self._inner = inner
        self._line = line
        self._rules = rules

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send `request`, again when it failed in passing.

        Raises:
            LineCut: the request was called off.
            httpx2.TransportError: there was no whole reply in time.
        """
        attempt = 0
        permit = self._line.permit()
        while True:
            outcome = self._try(request, permit)
            if permit.called_off.is_set():
                raise LineCut(sent=True)
            pause = self._pause(outcome, attempt)
            if pause is None:
                break
            if permit.called_off.wait(pause):
                raise LineCut(sent=True)
            attempt += 1
            permit = self._line.permit()
        if isinstance(outcome, httpx2.Response):
            return outcome
        raise outcome

    def close(self) -> None:
        """Cut the line and close the connections; any number of times."""
        self._line.cut()
        self._inner.close()

    def _try(self, request: httpx2.Request, permit: Permit) -> httpx2.Response | httpx2.TransportError:
        end = time.monotonic() + permit.seconds
        request.extensions["trace"] = self._line.tracer(permit)
        request.extensions["timeout"] = {
            "connect": min(permit.seconds, CONNECT_SECONDS),
            "read": permit.seconds,
            "write": permit.seconds,
            "pool": permit.seconds,
        }
        try:
            response = self._inner.handle_request(request)
            try:
                body = _read(response, request, end)
            finally:
                response.close()
        except httpx2.TransportError as error:
            return error
        return self._finished(response, body)

    def _finished(self, response: httpx2.Response, body: bytes) -> httpx2.Response:
        if response.status_code >= 400:
            body = redact_error(body, self._rules.secrets)
        elif self._rules.needs_text:
            body = fill_missing_text(body)
        return with_body(response, body)

    def _pause(self, outcome: httpx2.Response | httpx2.TransportError, attempt: int) -> float | None:
        """Seconds until the request is sent again, or None when `outcome` stands."""
        response = outcome if isinstance(outcome, httpx2.Response) else None
        if attempt >= self._rules.retries or (response is not None and response.status_code not in RETRIED):
            return None
        seconds = retry_delay(response, attempt)
        return seconds if seconds < self._line.time_left() else None


def open_transport(base_url: str, line: ProviderLine, rules: ExchangeRules, tls: ssl.SSLContext) -> ProviderTransport:
    """Return the way over `line` to `base_url`, through the environment's proxy if it names one."""
    inner = httpx2.HTTPTransport(verify=tls, limits=_LIMITS, proxy=_proxy_for(base_url))
    return ProviderTransport(inner, line, rules)


def _proxy_for(url: str) -> str | None:
    target = httpx2.URL(url)
    if urllib.request.proxy_bypass(target.host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(target.scheme) or proxies.get("all")


def _read(response: httpx2.Response, request: httpx2.Request, end: float) -> bytes:
    """The whole body; a reply that keeps coming in small pieces fails when its time is over."""
    chunks = []
    for chunk in response.iter_bytes():
        chunks.append(chunk)
        if time.monotonic() >= end:
            raise httpx2.ReadTimeout("the reply took too long", request=request)
    return b"".join(chunks)
