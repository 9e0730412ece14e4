"""Tokens that were verified a moment ago: a Turn brings the same one with every reservation."""

from __future__ import annotations

from collections import OrderedDict

import jwt

from services.common.clock import Clock
from services.common.tokens import Claims, TokenVerifier

_REMEMBER_SECONDS = 60.0
_REMEMBERED = 1_024


class RememberingVerifier(TokenVerifier):
    """A verifier that takes a signature's word for a minute, and never past the token's own end.

    Checking a signature costs as much as the reservation itself. The whole token is the key, so that one which
    differs in a single character is verified anew.
    """

    def __init__(self, inner: TokenVerifier, clock: Clock) -> None:
        """Remember what `inner` verifies.

        Args:
            inner: verifies tokens that aren't known.
            clock: tells when one is forgotten.
        """
        self._inner = inner
        self._clock = clock
        self._seen: OrderedDict[str, tuple[float, Claims]] = OrderedDict()

    def verify(self, token: str) -> Claims:
        """The claims of `token`; raises as the inner verifier does."""
        now = self._clock.now().timestamp()
        known = self._seen.get(token)
        if known is not None and now < known[0]:
            return known[1]
        claims = self._inner.verify(token)
        ends = float(jwt.decode(token, options={"verify_signature": False})["exp"])
        self._seen[token] = (min(ends, now + _REMEMBER_SECONDS), claims)
        self._seen.move_to_end(token)
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return claims
