"""Service tokens: what verifies, and what doesn't."""

from __future__ import annotations

from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from services.common.errors import FleetError
from services.common.request_context import Principal, RequestContext, use
from services.common.token_sources import ClaimsTokens, PrincipalTokens
from services.common.tokens import Claims, TokenSigner, TokenVerifier, key_id
from tests.fakes.clock import FakeClock

KEY = Ed25519PrivateKey.generate()
CLAIMS = Claims("acme", "session-service", "sessions/a", "turns/b", 1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def verifier(clock: FakeClock) -> TokenVerifier:
    return TokenVerifier([Ed25519PrivateKey.generate().public_key(), KEY.public_key()], clock)


def refused(verifier: TokenVerifier, token: str) -> None:
    with pytest.raises(FleetError) as error:
        verifier.verify(token)
    assert error.value.reason == "UNAUTHENTICATED"


@pytest.mark.parametrize("claims", [CLAIMS, Claims("local", "loopback")])
def test_claims_come_back(clock: FakeClock, verifier: TokenVerifier, claims: Claims) -> None:
    assert verifier.verify(TokenSigner(KEY, clock).sign(claims, 60)) == claims
    assert Claims.of(claims.principal()) == claims


def test_expiry(clock: FakeClock, verifier: TokenVerifier) -> None:
    token = TokenSigner(KEY, clock).sign(CLAIMS, 60)
    clock.advance(64)
    verifier.verify(token)
    clock.advance(2)
    refused(verifier, token)


def test_a_token_of_the_future(clock: FakeClock, verifier: TokenVerifier) -> None:
    ahead = FakeClock()
    ahead.advance(60)
    refused(verifier, TokenSigner(KEY, ahead).sign(CLAIMS, 60))


def test_an_unknown_key(clock: FakeClock, verifier: TokenVerifier) -> None:
    refused(verifier, TokenSigner(Ed25519PrivateKey.generate(), clock).sign(CLAIMS, 60))


def test_a_changed_token(clock: FakeClock, verifier: TokenVerifier) -> None:
    head, body, signature = TokenSigner(KEY, clock).sign(CLAIMS, 60).split(".")
    other = TokenSigner(KEY, clock).sign(Claims("other", "s"), 60).split(".")[1]
    refused(verifier, ".".join((head, other, signature)))
    refused(verifier, ".".join((head, body, "")))
    refused(verifier, ".".join((head, body)))


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "é.é.é", "x" * 5_000])
def test_nonsense(verifier: TokenVerifier, token: str) -> None:
    refused(verifier, token)


def forged(clock: FakeClock, algorithm: str = "EdDSA", key: Any = KEY, **changes: Any) -> str:
    now = clock.now().timestamp()
    payload = {"iss": "fleet", "aud": "fleet", "iat": now, "exp": now + 60, "sub": "s", "ws": "w", "depth": 0}
    payload = {name: value for name, value in {**payload, **changes}.items() if value is not None}
    return jwt.encode(payload, key, algorithm=algorithm, headers={"kid": key_id(KEY.public_key())})


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "other"},
        {"aud": "other"},
        {"exp": None},
        {"exp": "tomorrow"},
        {"iat": None},
        {"sub": None},
        {"ws": None},
        {"ws": ""},
        {"ws": 3},
        {"depth": None},
        {"depth": 2},
        {"depth": -1},
        {"depth": True},
        {"depth": "0"},
        {"sid": ""},
        {"tid": 5},
    ],
)
def test_signed_but_wrong(clock: FakeClock, verifier: TokenVerifier, changes: dict[str, Any]) -> None:
    assert verifier.verify(forged(clock)) == Claims("w", "s")
    refused(verifier, forged(clock, **changes))


def test_other_algorithms(clock: FakeClock, verifier: TokenVerifier) -> None:
    public = KEY.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    refused(verifier, forged(clock, "HS256", public))
    refused(verifier, forged(clock, "none", None))


@pytest.mark.parametrize("claims", [Claims("", "s"), Claims("w", ""), Claims("w", "s", depth=2)])
def test_claims_that_are_never_signed(claims: Claims) -> None:
    with pytest.raises(ValueError, match="depth"):
        TokenSigner(KEY).sign(claims, 60)


def test_a_source_renews_its_token_before_it_expires(clock: FakeClock, verifier: TokenVerifier) -> None:
    source = ClaimsTokens(TokenSigner(KEY, clock), CLAIMS, clock)
    first = source.token()
    clock.advance(100)
    assert source.token() == first
    clock.advance(100)
    second = source.token()
    assert second != first
    assert verifier.verify(second) == CLAIMS


def test_a_source_passes_the_caller_on(clock: FakeClock, verifier: TokenVerifier) -> None:
    source = PrincipalTokens(TokenSigner(KEY, clock), Claims("system", "session"), clock)
    assert verifier.verify(source.token()) == Claims("system", "session")
    with use(RequestContext("r", Principal("acme", "user", depth=1))):
        assert verifier.verify(source.token()) == Claims("acme", "user", depth=1)
    for number in range(300):
        with use(RequestContext("r", Principal(f"w{number}", "user"))):
            assert verifier.verify(source.token()).workspace == f"w{number}"
