"""The identity layer: who the caller is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import structlog

from services.common.errors import FleetError
from services.common.interceptors.chain import Behaviour, Context, Method
from services.common.interceptors.metadata import text_value
from services.common.request_context import LOOPBACK, Principal, current, use
from services.common.tokens import TokenVerifier

AUTHORIZATION_KEY = "authorization"
"""The metadata that carries the bearer token."""


class IdentityLayer:
    """Verifies the bearer token and makes its claims the current principal.

    Args:
        verifier: verifies tokens.
        allow_anonymous: whether a call without a token is the loopback caller; a token that is there must verify.
    """

    def __init__(self, verifier: TokenVerifier, *, allow_anonymous: bool) -> None:
        self._verifier = verifier
        self._allow_anonymous = allow_anonymous

    def wrap(self, behaviour: Behaviour, method: Method) -> Behaviour:
        """A behaviour that runs as its caller; public services need no token."""
        if method.public:
            return behaviour

        async def call(request: Any, context: Context) -> Any:
            principal = self._principal(text_value(context, AUTHORIZATION_KEY))
            bound = {"workspace": principal.workspace, "session": principal.session, "turn": principal.turn}
            with (
                use(replace(current(), principal=principal)),
                structlog.contextvars.bound_contextvars(**{key: value for key, value in bound.items() if value}),
            ):
                return await behaviour(request, context)

        return call

    def _principal(self, authorization: str) -> Principal:
        if not authorization:
            if self._allow_anonymous:
                return LOOPBACK
            raise FleetError("UNAUTHENTICATED", "The call has no credential.")
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise FleetError("UNAUTHENTICATED", "The credential must be a bearer token.")
        return self._verifier.verify(token.strip()).principal()
