"""Children as native RLMs in their own sandboxes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence

from config.policy import Policy
from config.problem import ConfigError, Problem
from services.recursion.broker_client import Stubs
from services.recursion.children.ports import Answer, Job
from services.rlm.contract.signatures import child_signature
from services.rlm.invocation.scope import InvocationScope
from services.rlm.models.factory import ModelFactory
from services.rlm.models.usage import ModelUse
from services.rlm.native import NativeRlm, RlmSpec

_WRAP_UP_SHARE = 0.2
"""Share of a child's time that is kept for its answer, up to the policy's wrap-up time."""
_LET_GO_SECONDS = 1.0


class NativeEngine:
    """A `ports.Engine` around `services.rlm`. It belongs to one event loop."""

    def __init__(self, policy: Policy, env: Mapping[str, str], stubs: Callable[[str, str, str], Stubs]) -> None:
        """Hold what `open` and children need.

        Args:
            policy: limits and model roles.
            env: the environment with keys and addresses.
            stubs: gives the broker's stubs for a workspace, Session and Turn.
        """
        self._policy = policy
        self._env = env
        self._stubs = stubs
        self._ready: tuple[RlmSpec, ModelFactory] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Read the models' settings, then import DSPy and litellm and use them once, in a thread: it takes seconds.

        Raises:
            ConfigError: a variable that a model role names is missing.
        """
        try:
            # The policy names the offline model; its address is in the policy too.
            models = ModelFactory(self._policy.with_addresses({}).llm, self._env)
        except ValueError as error:
            raise ConfigError([Problem("llm", str(error))]) from error
        self._ready = await asyncio.to_thread(self._warm, models), models

    async def close(self) -> None:
        """Return when the threads of ended children are gone."""
        await asyncio.gather(*self._closing, return_exceptions=True)

    def prepare(self, job: Job) -> NativeChild:
        """Make a child's RLM without running it.

        Raises:
            RuntimeError: the engine is not open.
        """
        if self._ready is None:
            raise RuntimeError("the engine is not open")
        spec, models = self._ready
        # The interpreter brings DSPy with it, which `open` has imported.
        from services.rlm.interpreter.broker import BrokerInterpreter, InterpreterLimits

        rlm, sandbox = self._policy.rlm, job.sandbox
        stub = self._stubs(job.workspace, job.session, job.turn)(sandbox.endpoint)
        limits = InterpreterLimits(
            execution_timeout_seconds=rlm.execution_timeout_seconds,
            max_output_chars=rlm.recursion_child_max_output_chars,
            step_output_bytes=rlm.max_execution_output_bytes,
        )
        loop = asyncio.get_running_loop()
        interpreter = BrokerInterpreter(stub, sandbox.lease, sandbox.epoch, loop, limits)
        native = NativeRlm(spec, interpreter, models)

        async def dispose() -> None:
            await native.close()
            await interpreter.aclose()

        return NativeChild(job.inputs, self._scope(job), native, lambda: self._spawn(dispose()))

    def _scope(self, job: Job) -> InvocationScope:
        left = max(0.0, job.deadline - time.monotonic())
        wrap_up = min(self._policy.rlm.wrap_up_seconds, left * _WRAP_UP_SHARE)
        return InvocationScope(
            sink=job.sink,
            gate=job.gate,
            tools={},
            deadline=job.deadline,
            work_deadline=job.deadline - wrap_up,
            recursion=False,
            max_iters=self._policy.rlm.recursion_child_max_iters,
        )

    def _warm(self, models: ModelFactory) -> RlmSpec:
        models.warm_up()
        import services.rlm.interpreter.broker  # noqa: F401 - imported here, so that no child waits for it

        rlm = self._policy.rlm
        return RlmSpec(
            signature=child_signature(self._policy),
            tools=(),
            max_iters=rlm.recursion_child_max_iters,
            max_llm_calls=rlm.recursion_child_max_llm_calls,
            max_output_chars=rlm.recursion_child_max_output_chars,
            role="child",
            models=models.describe(),
        )

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="end of a child's RLM")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task


class NativeChild:
    """One child's RLM; a `ports.Running`."""

    def __init__(
        self,
        inputs: Mapping[str, object],
        scope: InvocationScope,
        rlm: NativeRlm,
        dispose: Callable[[], asyncio.Task[None]],
    ) -> None:
        """Hold what a run needs.

        Args:
            inputs: the Signature's inputs.
            scope: the child's invocation.
            rlm: the RLM, used once.
            dispose: starts to close it and its interpreter.
        """
        self._inputs = inputs
        self._scope = scope
        self._rlm = rlm
        self._dispose = dispose

    async def run(self) -> Answer:
        """Run to the end; see `ports.Running`."""
        try:
            outcome = await self._rlm.run(self._inputs, self._scope)
        finally:
            self._scope.end()
            await asyncio.wait({self._dispose()}, timeout=_LET_GO_SECONDS)
        return Answer(outcome.outputs, outcome.termination, outcome.iterations)

    def usage(self) -> Sequence[ModelUse]:
        """What its model calls have used so far."""
        return self._scope.usage()
