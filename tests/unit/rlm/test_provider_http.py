"""The transport's clock and retries, against a provider in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import httpx2
import pytest

from services.rlm.models.provider_http import ExchangeRules, ProviderTransport
from services.rlm.models.provider_line import LineCut, ProviderLine


class _Provider(httpx2.BaseTransport):
    """Answers with what a function of the request's number gives."""

    def __init__(self, answer: Callable[[int], httpx2.Response]) -> None:
        self.answer = answer
        self.count = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.count += 1
        return self.answer(self.count)


class _Drip(httpx2.SyncByteStream):
    """A body that keeps coming in small pieces."""

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(1_000):
            time.sleep(0.01)
            yield b" "


def _ask(
    provider: _Provider, *, timeout: float = 5.0, left: float = 60.0, retries: int = 0
) -> tuple[httpx2.Client, ProviderLine]:
    line = ProviderLine(timeout=timeout, time_left=lambda: left)
    return httpx2.Client(transport=ProviderTransport(provider, line, ExchangeRules(retries))), line


def test_a_dripping_reply_ends_with_its_time() -> None:
    client, _ = _ask(_Provider(lambda number: httpx2.Response(200, stream=_Drip())), timeout=0.1)
    began = time.monotonic()
    with pytest.raises(httpx2.ReadTimeout):
        client.get("http://provider.example/")
    assert time.monotonic() - began < 2


def test_the_time_left_shortens_the_time_of_a_request() -> None:
    client, _ = _ask(_Provider(lambda number: httpx2.Response(200, stream=_Drip())), timeout=60, left=0.1)
    with pytest.raises(httpx2.ReadTimeout):
        client.get("http://provider.example/")


def test_the_last_outcome_stands_when_retries_are_used_up() -> None:
    provider = _Provider(lambda number: httpx2.Response(503, headers={"Retry-After": "0"}, content=b"busy"))
    client, _ = _ask(provider, retries=2)
    assert client.get("http://provider.example/").status_code == 503
    assert provider.count == 3


def test_a_longer_wait_than_the_time_left_is_not_begun() -> None:
    provider = _Provider(lambda number: httpx2.Response(429, headers={"Retry-After": "61"}))
    client, _ = _ask(provider, retries=2)
    assert client.get("http://provider.example/").status_code == 429
    assert provider.count == 1


def test_a_dropped_request_is_not_sent_again_and_a_later_one_is_sent() -> None:
    dropped = threading.Event()

    def answer(number: int) -> httpx2.Response:
        if number == 1:
            line.drop()
            dropped.set()
            raise httpx2.RemoteProtocolError("closed")
        return httpx2.Response(200, content=b"fine")

    provider = _Provider(answer)
    client, line = _ask(provider, retries=2)
    with pytest.raises(LineCut) as failed:
        client.get("http://provider.example/")
    assert failed.value.sent
    assert provider.count == 1
    assert client.get("http://provider.example/").text == "fine"


def test_a_cut_line_sends_nothing() -> None:
    provider = _Provider(lambda number: httpx2.Response(200))
    client, line = _ask(provider)
    line.cut()
    with pytest.raises(LineCut) as failed:
        client.get("http://provider.example/")
    assert not failed.value.sent
    assert provider.count == 0
