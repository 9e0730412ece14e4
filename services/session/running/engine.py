"""The part of the service that runs Turns, composed: implements `services.session.runner.TurnEngine`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack

import grpc

from config.policy import Policy
from services.common import keys
from services.common.blobs import BlobStore
from services.common.channel import channel_credentials, open_channel
from services.common.clock import Clock
from services.common.redaction import Redactor, known_secrets
from services.common.request_context import LOOPBACK
from services.common.token_sources import PrincipalTokens
from services.common.tokens import Claims
from services.rlm.contract.signatures import root_signature
from services.rlm.interpreter.broker import InterpreterLimits
from services.rlm.models.factory import ModelFactory
from services.rlm.native import RlmSpec
from services.session.running.clients.recursion import RecursionClient
from services.session.running.clients.sandbox import SandboxClient
from services.session.running.invocation import InvocationParts
from services.session.running.preparation import PreparationParts
from services.session.running.recovery import RecoveryOfTurns
from services.session.running.residents.registry import RegistryLimits, ResidentRegistry
from services.session.running.residents.runtime import SUBJECT, RootRuntime, RuntimeParts, TurnRuntime
from services.session.running.runner import ResidentTurnRunner
from services.session.running.tools.toolbox import declarations
from services.session.running.turn_run import RunParts


def build_engine(policy: Policy, env: Mapping[str, str], clock: Clock, blobs: BlobStore) -> NativeEngine:
    """The engine that runs Turns with native RLMs, not yet open.

    Args:
        policy: the effective policy, with the other services' addresses.
        env: the environment that the policy's variables are read from.
        clock: the time.
        blobs: the attachments' bytes.
    """
    return NativeEngine(policy, env, clock, blobs)


class NativeEngine:
    """The runner, the recovery, and what they share: channels, models and resident runtimes."""

    def __init__(self, policy: Policy, env: Mapping[str, str], clock: Clock, blobs: BlobStore) -> None:
        """Hold what `open` composes; see `build_engine`."""
        self._policy = policy
        self._env = env
        self._clock = clock
        self._blobs = blobs
        self._stack = AsyncExitStack()
        self._runner: ResidentTurnRunner | None = None
        self._recovery: RecoveryOfTurns | None = None

    @property
    def runner(self) -> ResidentTurnRunner:
        """Runs Turns; usable from `open` on."""
        if self._runner is None:
            raise RuntimeError("the engine is not open")
        return self._runner

    @property
    def recovery(self) -> RecoveryOfTurns:
        """Cleans up after replicas that are gone; usable from `open` on."""
        if self._recovery is None:
            raise RuntimeError("the engine is not open")
        return self._recovery

    async def open(self) -> None:
        """Warm the models' library up, open the channels and begin to keep house.

        Raises:
            ConfigError: a key or a TLS file can't be used.
        """
        models = ModelFactory(self._policy.llm, self._env)
        await asyncio.to_thread(models.warm_up)
        services = self._policy.services
        tokens = PrincipalTokens(keys.signer(self._policy, self._env), Claims(LOOPBACK.workspace, SUBJECT), self._clock)
        credentials = channel_credentials(self._policy)

        def connect(address: str, service: str) -> grpc.aio.Channel:
            return open_channel(address, service=service, tokens=tokens, credentials=credentials)

        sandbox = SandboxClient(services.sandbox.address, lambda address: connect(address, "sandbox"))
        self._stack.push_async_callback(sandbox.close)
        channel = await self._stack.enter_async_context(connect(services.recursion.address, "recursion"))
        recursion = RecursionClient(channel)
        self._recovery = RecoveryOfTurns(recursion, sandbox)
        self._runner = ResidentTurnRunner(self._parts(models, sandbox, recursion))
        self._runner.open()

    async def close(self) -> None:
        """End what is still running and close the channels; also when `open` failed."""
        if self._runner is not None:
            await self._runner.drain(0)
        await self._stack.aclose()

    def _parts(self, models: ModelFactory, sandbox: SandboxClient, recursion: RecursionClient) -> RunParts:
        rlm, runtime = self._policy.rlm, self._policy.runtime
        spec = root_spec(self._policy, models)
        limits = InterpreterLimits(
            execution_timeout_seconds=rlm.execution_timeout_seconds,
            max_output_chars=rlm.max_output_chars,
            step_output_bytes=rlm.max_execution_output_bytes,
        )
        made_from = RuntimeParts(sandbox, models, limits, spec, runtime.lease_seconds, runtime.queue_seconds)
        return RunParts(
            preparation=PreparationParts(
                registry=self._registry(),
                make=lambda key, turn: RootRuntime(made_from, key, turn),
                stage=sandbox.stage,
                recursion=recursion,
                fingerprint=spec.fingerprint(),
            ),
            invocation=InvocationParts(
                blobs=self._blobs,
                redactor=Redactor(known_secrets(self._policy, self._env)),
                recursion=rlm.recursion_enabled,
                max_output_chars=rlm.max_output_chars,
            ),
            wrap_up_seconds=rlm.wrap_up_seconds,
            settle_seconds=rlm.settle_seconds,
            clock=self._clock,
        )

    def _registry(self) -> ResidentRegistry[TurnRuntime]:
        runtime = self._policy.runtime
        limits = RegistryLimits(
            max_resident=runtime.max_resident_sessions,
            idle_seconds=runtime.session_idle_seconds,
            heartbeat_seconds=runtime.heartbeat_seconds,
            lease_seconds=runtime.lease_seconds,
        )
        return ResidentRegistry(limits, self._clock)


def root_spec(policy: Policy, models: ModelFactory) -> RlmSpec:
    """The Root's RLM under `policy`: what every Turn without Skills runs."""
    return RlmSpec(
        signature=root_signature(policy),
        tools=declarations(recursion=policy.rlm.recursion_enabled),
        max_iters=policy.rlm.max_iters,
        max_llm_calls=policy.rlm.max_llm_calls,
        max_output_chars=policy.rlm.max_output_chars,
        role="root",
        models=models.describe(),
        policy=policy.rlm.model_dump(mode="json"),
    )
