"""The running parts of a resident: its Root lease, the interpreter over it, and the native RLM."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from services.common.errors import FleetError
from services.common.ids import new_id
from services.common.request_context import Principal, RequestContext, use
from services.session.running.clients.sandbox import LeaseHandle, LeaseOwner, SandboxClient
from services.session.running.residents.resident import ResidentRuntime, SessionKey

if TYPE_CHECKING:
    from services.rlm.interpreter.broker import BrokerInterpreter, InterpreterLimits
    from services.rlm.invocation.scope import InvocationScope
    from services.rlm.models.factory import ModelFactory
    from services.rlm.native import NativeRlm, RlmOutcome, RlmSpec

SUBJECT = "service:session"
"""The subject of what the session service does on a Session's behalf."""

_ACQUISITION_SECONDS = 2.0
"""How long the end of a runtime waits for a lease that its start was still acquiring."""


@dataclass(frozen=True)
class RuntimeParts:
    """What every runtime is made from.

    Attributes:
        sandbox: the broker.
        models: the Root and Sub models.
        limits: of one execution.
        spec: of the RLM.
        lease_seconds: how long a lease lasts without renewal.
        queue_seconds: how long a lease may wait for capacity.
    """

    sandbox: SandboxClient
    models: ModelFactory
    limits: InterpreterLimits
    spec: RlmSpec
    lease_seconds: float
    queue_seconds: float


@contextmanager
def on_behalf_of(key: SessionKey) -> Iterator[None]:
    """Calls inside the block carry the Session's workspace, whatever task they are made in."""
    with use(RequestContext(new_id(), Principal(key.workspace, SUBJECT, session=key.session))):
        yield


class TurnRuntime(ResidentRuntime, Protocol):
    """A runtime that Turns run in."""

    @property
    def lease(self) -> LeaseHandle:
        """The lease of an open runtime.

        Raises:
            FleetError: INTERPRETER_FAILED when it isn't open.
        """

    async def run(self, inputs: Mapping[str, Any], scope: InvocationScope) -> RlmOutcome:
        """Run one Turn's invocation.

        Raises:
            FleetError: why there is no answer.
        """


class RootRuntime:
    """A lease, an interpreter and an RLM that live and end together; implements `TurnRuntime`."""

    def __init__(self, parts: RuntimeParts, key: SessionKey, turn: str) -> None:
        """A runtime that is not open yet.

        Args:
            parts: what it is made from.
            key: whose it is.
            turn: id of the Turn that needs it first.
        """
        self._parts = parts
        self._key = key
        self._turn = turn
        self._lease: LeaseHandle | None = None
        self._acquisition: asyncio.Task[LeaseHandle] | None = None
        self._interpreter: BrokerInterpreter | None = None
        self._native: NativeRlm | None = None

    @property
    def lease(self) -> LeaseHandle:
        """See `TurnRuntime`."""
        if self._lease is None:
            raise FleetError("INTERPRETER_FAILED", "The Session's sandbox is not open.")
        return self._lease

    async def open(self) -> None:
        """Acquire the lease and make the interpreter and the RLM.

        Raises:
            FleetError: no sandbox could be had.
        """
        from services.rlm.interpreter.broker import BrokerInterpreter
        from services.rlm.native import NativeRlm

        # The acquisition is not cancelled with its Turn: only its outcome tells what there is to be released.
        self._acquisition = asyncio.create_task(self._acquire(), name=f"lease of {self._key.session}")
        self._lease = lease = await asyncio.shield(self._acquisition)
        stub, loop = self._parts.sandbox.stub_at(lease.endpoint), asyncio.get_running_loop()
        self._interpreter = BrokerInterpreter(stub, lease.name, lease.epoch, loop, self._parts.limits)
        self._native = NativeRlm(self._parts.spec, self._interpreter, self._parts.models)

    async def run(self, inputs: Mapping[str, Any], scope: InvocationScope) -> RlmOutcome:
        """See `TurnRuntime`."""
        if self._native is None:
            raise FleetError("INTERPRETER_FAILED", "The Session's sandbox is not open.")
        return await self._native.run(inputs, scope)

    async def renew(self, *, idle: bool, turn: str) -> None:
        """Prolong the lease; see `ResidentRuntime`."""
        if self._lease is None:
            return  # It is still being acquired.
        with on_behalf_of(self._key):
            await self._parts.sandbox.renew(self._lease, self._parts.lease_seconds, idle=idle, turn=turn)

    async def close(self) -> bool:
        """End the RLM and the interpreter and release the lease; whether the sandbox is confirmed gone.

        Raises:
            FleetError: the broker can't be reached; to be repeated.
        """
        native, self._native = self._native, None
        interpreter, self._interpreter = self._interpreter, None
        if native is not None:
            await native.close()
        if interpreter is not None:
            await interpreter.aclose()
        with on_behalf_of(self._key):
            return await self._released()

    async def _acquire(self) -> LeaseHandle:
        owner, parts = LeaseOwner(self._key.session, self._turn), self._parts
        request_id = f"root-{self._turn}-{new_id()}"
        with on_behalf_of(self._key):
            return await parts.sandbox.acquire(request_id, owner, parts.lease_seconds, parts.queue_seconds)

    async def _released(self) -> bool:
        """Release the lease; whether the sandbox is confirmed gone, or there is none."""
        if self._acquisition is not None and self._lease is None:
            await self._await_acquisition(self._acquisition)
        if self._lease is not None:
            return await self._parts.sandbox.release(self._lease.name)
        if self._acquisition is None:
            return True
        # The broker's answer is lost: whatever it has for the Turn is not wanted.
        names = await self._parts.sandbox.root_leases(self._key.session, self._turn)
        confirmed = [await self._parts.sandbox.release(name) for name in names]
        return all(confirmed)

    async def _await_acquisition(self, acquisition: asyncio.Task[LeaseHandle]) -> None:
        """Learn the outcome of an acquisition that nobody waits for any more; one that takes long is cancelled."""
        await asyncio.wait([acquisition], timeout=_ACQUISITION_SECONDS)
        if not acquisition.done():
            acquisition.cancel()
            await asyncio.wait([acquisition])
        if not acquisition.cancelled() and acquisition.exception() is None:
            self._lease = acquisition.result()
