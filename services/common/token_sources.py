"""Where the bearer tokens of outgoing calls come from."""

from __future__ import annotations

from collections import OrderedDict

from services.common.clock import Clock, SystemClock
from services.common.request_context import current
from services.common.tokens import Claims, TokenSigner

_TTL_SECONDS = 300.0
_CACHED = 256


class ClaimsTokens:
    """Tokens with the same claims in every call.

    Args:
        signer: signs them.
        claims: what they say.
        clock: tells when one is half way to its end and is replaced.
    """

    def __init__(self, signer: TokenSigner, claims: Claims, clock: Clock | None = None) -> None:
        self._cache = _TokenCache(signer, clock or SystemClock())
        self._claims = claims

    def token(self) -> str:
        """A token that is good for at least half of five minutes."""
        return self._cache.token(self._claims)


class PrincipalTokens:
    """Tokens that pass on the current principal, and the service's own claims outside any call.

    Args:
        signer: signs them.
        own: what the service says of itself when it acts for nobody.
        clock: tells when one is half way to its end and is replaced.
    """

    def __init__(self, signer: TokenSigner, own: Claims, clock: Clock | None = None) -> None:
        self._cache = _TokenCache(signer, clock or SystemClock())
        self._own = own

    def token(self) -> str:
        """A token for the caller that this code runs for."""
        principal = current().principal
        return self._cache.token(self._own if principal is None else Claims.of(principal))


class _TokenCache:
    """The last tokens that were signed, since signing costs more than a call's other metadata."""

    def __init__(self, signer: TokenSigner, clock: Clock) -> None:
        self._signer = signer
        self._clock = clock
        self._tokens: OrderedDict[Claims, tuple[float, str]] = OrderedDict()

    def token(self, claims: Claims) -> str:
        now = self._clock.monotonic()
        known = self._tokens.get(claims)
        if known is not None and now - known[0] < _TTL_SECONDS / 2:
            self._tokens.move_to_end(claims)
            return known[1]
        token = self._signer.sign(claims, _TTL_SECONDS)
        self._tokens[claims] = (now, token)
        while len(self._tokens) > _CACHED:
            self._tokens.popitem(last=False)
        return token
