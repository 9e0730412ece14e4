"""Short-lived tokens between services: EdDSA JWTs that name workspace, Session, Turn and depth."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from services.common.clock import Clock, SystemClock
from services.common.errors import FleetError
from services.common.request_context import Principal

ISSUER = "fleet"
"""Issuer and audience of every service token."""

_ALGORITHM = "EdDSA"
_LEEWAY_SECONDS = 5.0
_MAX_TOKEN_BYTES = 4_096
_REQUIRED = ["iss", "aud", "exp", "iat", "sub", "ws", "depth"]


@dataclass(frozen=True)
class Claims:
    """What a token says about its bearer; the fields of Principal.

    Attributes:
        workspace: tenant and storage scope.
        subject: the user or service.
        session: the Session that the token is bound to, if any.
        turn: the Turn that the token is bound to, if any.
        depth: 0 for a Root and everyone else, 1 for a child.
    """

    workspace: str
    subject: str
    session: str | None = None
    turn: str | None = None
    depth: int = 0

    def principal(self) -> Principal:
        """The caller that these claims describe."""
        return Principal(self.workspace, self.subject, self.session, self.turn, self.depth)

    @classmethod
    def of(cls, principal: Principal) -> Claims:
        """The claims that describe `principal`."""
        return cls(principal.workspace, principal.subject, principal.session, principal.turn, principal.depth)


class TokenSigner:
    """Signs tokens with one private key.

    Args:
        key: the private key.
        clock: tells when a token begins.
    """

    def __init__(self, key: Ed25519PrivateKey, clock: Clock | None = None) -> None:
        self._key = key
        self._clock = clock or SystemClock()
        self._key_id = key_id(key.public_key())

    def sign(self, claims: Claims, ttl: float) -> str:
        """A token with `claims` that is good for `ttl` seconds.

        Raises:
            ValueError: the depth is neither 0 nor 1, or a required text is empty.
        """
        if claims.depth not in (0, 1) or not claims.workspace or not claims.subject:
            raise ValueError("a token needs a workspace, a subject and a depth of 0 or 1")
        begin = self._clock.now().timestamp()
        payload = {
            "iss": ISSUER,
            "aud": ISSUER,
            "iat": begin,
            "exp": begin + ttl,
            "sub": claims.subject,
            "ws": claims.workspace,
            "depth": claims.depth,
            **({"sid": claims.session} if claims.session else {}),
            **({"tid": claims.turn} if claims.turn else {}),
        }
        return jwt.encode(payload, self._key, algorithm=_ALGORITHM, headers={"kid": self._key_id})


class TokenVerifier:
    """Verifies tokens against a set of public keys, so that keys can be rotated.

    Args:
        keys: the public keys whose tokens are good.
        clock: tells whether a token has expired.
    """

    def __init__(self, keys: Iterable[Ed25519PublicKey], clock: Clock | None = None) -> None:
        self._keys = {key_id(key): key for key in keys}
        self._clock = clock or SystemClock()

    def verify(self, token: str) -> Claims:
        """The claims of `token`.

        Raises:
            FleetError: UNAUTHENTICATED, when it is malformed, expired, or signed by an unknown key.
        """
        if len(token) > _MAX_TOKEN_BYTES:
            raise _refused()
        try:
            key = self._keys.get(jwt.get_unverified_header(token).get("kid", ""))
            if key is None:
                raise _refused()
            payload = jwt.decode(
                token,
                key,
                algorithms=[_ALGORITHM],
                audience=ISSUER,
                issuer=ISSUER,
                # The times are checked below, by the clock that was passed in.
                options={"require": _REQUIRED, "verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
        except jwt.PyJWTError as error:
            raise _refused() from error
        self._check_times(payload)
        return _claims(payload)

    def _check_times(self, payload: dict[str, Any]) -> None:
        now = self._clock.now().timestamp()
        begin, end = payload["iat"], payload["exp"]
        if not isinstance(begin, int | float) or not isinstance(end, int | float):
            raise _refused()
        if now > end + _LEEWAY_SECONDS:
            raise FleetError("UNAUTHENTICATED", "The token has expired.")
        if begin > now + _LEEWAY_SECONDS:
            raise _refused()


def key_id(key: Ed25519PublicKey) -> str:
    """The id of a public key: the first 16 hex digits of its SHA-256."""
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:16]


def _claims(payload: dict[str, Any]) -> Claims:
    texts: Sequence[Any] = (payload["ws"], payload["sub"], payload.get("sid", "-"), payload.get("tid", "-"))
    depth = payload["depth"]
    if not all(isinstance(text, str) and text for text in texts) or depth not in (0, 1) or isinstance(depth, bool):
        raise _refused()
    return Claims(payload["ws"], payload["sub"], payload.get("sid"), payload.get("tid"), depth)


def _refused() -> FleetError:
    return FleetError("UNAUTHENTICATED", "The token does not verify.")
