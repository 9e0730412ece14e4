"""Remembering tokens must not make a bad one good."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from services.common.errors import FleetError
from services.common.tokens import Claims, TokenSigner, TokenVerifier
from services.recursion.seen_tokens import RememberingVerifier
from tests.fakes.clock import FakeClock


class CountingVerifier(TokenVerifier):
    calls = 0

    def verify(self, token: str) -> Claims:
        self.calls += 1
        return super().verify(token)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_token_is_verified_once_a_minute_and_never_past_its_end(clock: FakeClock) -> None:
    key = Ed25519PrivateKey.generate()
    inner = CountingVerifier([key.public_key()], clock)
    verifier = RememberingVerifier(inner, clock)
    claims = Claims("local", "service:session", "s1", "t1", 0)
    token = TokenSigner(key, clock).sign(claims, 100)
    assert [verifier.verify(token) for _ in range(5)] == [claims] * 5
    assert inner.calls == 1
    clock.advance(61)
    assert verifier.verify(token) == claims
    assert inner.calls == 2
    clock.advance(46)  # Past its end and the leeway of five seconds.
    with pytest.raises(FleetError):
        verifier.verify(token)


def test_a_changed_token_is_never_taken_for_the_one_that_was_seen(clock: FakeClock) -> None:
    key = Ed25519PrivateKey.generate()
    verifier = RememberingVerifier(TokenVerifier([key.public_key()], clock), clock)
    token = TokenSigner(key, clock).sign(Claims("local", "a"), 100)
    verifier.verify(token)
    forged = TokenSigner(Ed25519PrivateKey.generate(), clock).sign(Claims("local", "a"), 100)
    for bad in (token[:-2] + ("AA" if token[-2:] != "AA" else "BB"), forged, token + "x", ""):
        with pytest.raises(FleetError):
            verifier.verify(bad)
    assert verifier.verify(token).subject == "a"


def test_no_more_tokens_are_kept_than_fit(clock: FakeClock) -> None:
    key = Ed25519PrivateKey.generate()
    inner = CountingVerifier([key.public_key()], clock)
    verifier = RememberingVerifier(inner, clock)
    tokens = [TokenSigner(key, clock).sign(Claims("local", f"s{number}"), 100) for number in range(1_030)]
    for token in tokens:
        verifier.verify(token)
    verifier.verify(tokens[-1])
    assert inner.calls == 1_030
    verifier.verify(tokens[0])
    assert inner.calls == 1_031
