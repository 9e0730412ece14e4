"""Who and what the current call is, for everything that runs on its behalf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from services.common.errors import FleetError
from services.common.ids import new_id


@dataclass(frozen=True)
class Principal:
    """A verified caller.

    Attributes:
        workspace: tenant and storage scope.
        subject: the user or service.
        session: the Session that the credential is bound to, if any.
        turn: the Turn that the credential is bound to, if any.
        depth: 0 for a Root and everyone else, 1 for a child.
    """

    workspace: str
    subject: str
    session: str | None = None
    turn: str | None = None
    depth: int = 0


LOOPBACK = Principal(workspace="local", subject="loopback")
"""The caller without a credential, where `auth.mode` is `loopback`."""


@dataclass(frozen=True)
class RequestContext:
    """What is known about the current call.

    Attributes:
        request_id: names the call in logs, from the caller or made here.
        principal: the caller, or None where no credential has been checked.
    """

    request_id: str
    principal: Principal | None = None


_CURRENT: ContextVar[RequestContext | None] = ContextVar("fleet_request_context", default=None)


def current() -> RequestContext:
    """The context of the call that is running, or an anonymous one outside any call."""
    return _CURRENT.get() or RequestContext(request_id=new_id())


def current_principal() -> Principal:
    """The verified caller.

    Raises:
        FleetError: UNAUTHENTICATED, outside any call or before the credential was checked.
    """
    context = _CURRENT.get()
    if context is None or context.principal is None:
        raise FleetError("UNAUTHENTICATED", "The call has no credential.")
    return context.principal


@contextmanager
def use(context: RequestContext) -> Iterator[RequestContext]:
    """Makes `context` the current one inside the block, and in tasks started there."""
    token = _CURRENT.set(context)
    try:
        yield context
    finally:
        _CURRENT.reset(token)
