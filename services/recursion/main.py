"""The composition root of the recursion service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress

import grpc
from fleet.recursion.v1 import recursion_service_pb2_grpc

from config.policy import Policy
from config.server import ComponentName
from services.common import keys
from services.common.channel import channel_credentials
from services.common.clock import Clock, SystemClock
from services.common.composed import ComposedService
from services.common.database import Database
from services.common.ids import new_id
from services.common.server import build_server
from services.common.tokens import TokenSigner
from services.recursion.budget.books import Books
from services.recursion.budget.changes import Changes
from services.recursion.budget.settlement import Settlement
from services.recursion.channels import SandboxChannels
from services.recursion.children.cleanup import Cleaner
from services.recursion.children.native_engine import NativeEngine
from services.recursion.children.ports import Brokers, Engine
from services.recursion.children.run import Limits, Means
from services.recursion.reaper import Reaper
from services.recursion.runs.live import Runs
from services.recursion.seen_tokens import RememberingVerifier
from services.recursion.service import RecursionService
from services.recursion.servicer import RecursionServicer
from services.recursion.store.children import ChildStore
from services.recursion.store.ledgers import LedgerStore
from services.recursion.store.reservations import ReservationStore
from services.recursion.store.statements import Transactions, transactions

NAME: ComponentName = "recursion"
"""The component's name in the policy."""

_STREAM_SECONDS = 1.0
_CLEAN_UP_SECONDS = 5.0
"""How long a shutdown waits for sandboxes to go; what is left is the next replica's."""


def build_service(
    policy: Policy,
    *,
    env: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    brokers: Brokers | None = None,
    engine: Engine | None = None,
) -> RecursionServer:
    """The recursion service, not yet started.

    Args:
        policy: the effective policy; the sandbox broker's address is taken from it.
        env: the environment; the process's own by default.
        clock: the time; the machine's by default.
        brokers: gives each Turn its sandbox broker; the one at the policy's address by default.
        engine: runs children; native RLMs by default.
    """
    return RecursionServer(policy, os.environ if env is None else env, clock or SystemClock(), brokers, engine)


class RecursionServer(ComposedService):
    """One replica of the recursion service: `await start()` once, `await stop(grace)` once."""

    name = NAME

    def __init__(
        self,
        policy: Policy,
        env: Mapping[str, str],
        clock: Clock,
        brokers: Brokers | None,
        engine: Engine | None,
    ) -> None:
        """Hold what `start` composes; see `build_service`."""
        super().__init__(policy, env, clock)
        self._brokers = brokers
        self._engine = engine

    async def _open(self, stack: AsyncExitStack) -> str:
        policy, signer, alone = self._policy, keys.signer(self._policy, self._env), self._alone
        if alone:
            self._lock_data_root(stack)
        database = await self._open_database(stack)
        statements = transactions(database)
        stack.push_async_callback(statements.close)
        channels = self._channels(signer)
        stack.push_async_callback(channels.close)
        engine = self._engine or NativeEngine(policy, self._env, channels.stubs)
        stack.push_async_callback(engine.close)
        if policy.rlm.recursion_enabled:
            await engine.open()
        parts = _Parts(policy, self._clock, signer, database, statements, self._brokers or channels, engine)
        stack.push_async_callback(parts.cleaner.stop, _CLEAN_UP_SECONDS)
        if alone:
            # Holding the lock proves that whoever held the rows is gone.
            await parts.reaper.take_all()
        heart = asyncio.create_task(parts.reaper.run(), name="recursion heartbeat")
        stack.push_async_callback(_cancelled, heart)
        return await self._serve(stack, parts)

    async def _serve(self, stack: AsyncExitStack, parts: _Parts) -> str:
        def add_servicers(server: grpc.aio.Server) -> None:
            servicer = RecursionServicer(parts.service, self._clock)
            recursion_service_pb2_grpc.add_RecursionServiceServicer_to_server(servicer, server)

        verifier = RememberingVerifier(keys.verifier(self._policy, self._env), self._clock)
        server = build_server(self._policy, NAME, add_servicers, verifier)

        async def drain() -> None:
            closing = asyncio.create_task(server.stop(self._grace + _STREAM_SECONDS))
            await parts.runs.stop(self._grace)
            await closing

        stack.push_async_callback(drain)
        port = await server.start()
        return self._bound(port)

    def _channels(self, signer: TokenSigner) -> SandboxChannels:
        runtime = self._policy.runtime
        return SandboxChannels(
            self._policy.services.sandbox.address,
            signer,
            channel_credentials(self._policy),
            lease_seconds=runtime.lease_seconds,
            renew_seconds=runtime.heartbeat_seconds,
        )


class _Parts:
    """The service's parts, put together."""

    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        signer: TokenSigner,
        database: Database,
        statements: Transactions,
        brokers: Brokers,
        engine: Engine,
    ) -> None:
        ledgers, children = LedgerStore(database), ChildStore(database)
        books, changes = Books(ReservationStore(statements), clock), Changes()
        self.cleaner = Cleaner(children, changes)
        means = Means(children, books, engine, self.cleaner, clock, _limits(policy))
        self.runs = Runs(means, brokers, changes, policy.rlm.recursion_max_parallel_children, clock)
        settlement = Settlement(ledgers, self.runs, changes, clock, policy.rlm.settle_seconds)
        self.reaper = Reaper(
            owner=new_id(),
            ledgers=ledgers,
            children=children,
            runs=self.runs,
            settlement=settlement,
            cleaner=self.cleaner,
            brokers=brokers,
            clock=clock,
            lease_seconds=policy.runtime.lease_seconds,
            heartbeat_seconds=policy.runtime.heartbeat_seconds,
            grace_seconds=policy.rlm.settle_seconds,
        )
        self.service = RecursionService(
            ledgers=ledgers,
            books=books,
            children=children,
            runs=self.runs,
            settlement=settlement,
            reaper=self.reaper,
            changes=changes,
            signer=signer,
            clock=clock,
            recursion_enabled=policy.rlm.recursion_enabled,
        )


def _limits(policy: Policy) -> Limits:
    return Limits(
        max_iters=policy.rlm.recursion_child_max_iters,
        max_llm_calls=policy.rlm.recursion_child_max_llm_calls,
        max_prompt_chars=policy.rlm.recursion_max_prompt_chars,
        grace_seconds=policy.rlm.child_grace_seconds,
    )


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
