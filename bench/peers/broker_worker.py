"""Fleet's interpreter as a process: `python -m bench.peers.broker_worker <address of the sandbox service>`.

It takes a lease and runs steps as the session service does, without a model. It reads a JSON request a line from
standard input and answers each with a JSON line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from fleet.sandbox.v1 import lease_pb2, sandbox_service_pb2
from fleet.sandbox.v1.sandbox_service_pb2_grpc import SandboxServiceStub

from services.common.channel import open_channel
from services.common.ids import new_id
from services.rlm.budget.gate import LocalGate
from services.rlm.events import RlmEvent
from services.rlm.interpreter.broker import BrokerInterpreter, InterpreterLimits
from services.rlm.invocation.scope import InvocationScope, enter_scope
from services.rlm.tools import ToolDeclaration, native_tool

if TYPE_CHECKING:
    from fleet.sandbox.v1.sandbox_service_pb2_grpc import SandboxServiceAsyncStub

_LIMITS = InterpreterLimits(execution_timeout_seconds=60, max_output_chars=6_000, step_output_bytes=2_000_000)
_SECONDS = 600.0
_PING = ToolDeclaration("ping", "Return `n`.", {"n": {"type": "integer"}})


class _Unheard:
    """An event sink that drops what it is given."""

    def emit(self, event: RlmEvent) -> None:
        """Drop `event`."""


@contextlib.asynccontextmanager
async def _interpreter(stub: SandboxServiceAsyncStub) -> AsyncIterator[BrokerInterpreter]:
    owner = lease_pb2.LeaseOwner(session="bench")
    request = sandbox_service_pb2.AcquireLeaseRequest(
        request_id=f"bench-{new_id()}", kind=lease_pb2.LEASE_KIND_ROOT, owner=owner
    )
    request.ttl.FromSeconds(int(_SECONDS))
    lease = await stub.AcquireLease(request)
    interpreter = BrokerInterpreter(stub, lease.name, lease.epoch, asyncio.get_running_loop(), _LIMITS)
    try:
        yield interpreter
    finally:
        await interpreter.aclose()
        await stub.ReleaseLease(sandbox_service_pb2.ReleaseLeaseRequest(name=lease.name))


async def step(stub: SandboxServiceAsyncStub, code: str, repeats: int) -> list[float]:
    """Run `code` in a sandbox with the host tool `ping`; returns the seconds of each time after the first."""
    async with _interpreter(stub) as interpreter:
        return (await asyncio.to_thread(_steps, interpreter, _scope(), code, 1 + repeats))[1:]


async def start(stub: SandboxServiceAsyncStub) -> float:
    """Take a lease and run its first step; returns the seconds."""
    begin = time.perf_counter()
    async with _interpreter(stub) as interpreter:
        await asyncio.to_thread(_steps, interpreter, _scope(), "pass", 1)
        return time.perf_counter() - begin


def _scope() -> InvocationScope:
    end = time.monotonic() + _SECONDS
    return InvocationScope(
        sink=_Unheard(),
        gate=LocalGate({}),
        tools={"ping": _ping},
        deadline=end,
        work_deadline=end,
        recursion=False,
        max_iters=sys.maxsize,
    )


def _steps(interpreter: BrokerInterpreter, scope: InvocationScope, code: str, repeats: int) -> list[float]:
    enter_scope(scope)
    interpreter.bind(scope)
    interpreter.tools["ping"] = native_tool(_PING).func
    samples = []
    for _ in range(repeats):
        begin = time.perf_counter()
        interpreter.execute(code)
        samples.append(time.perf_counter() - begin)
    scope.end()
    return samples


async def _ping(n: int) -> int:
    return n


async def _serve(address: str) -> None:
    async with open_channel(address, service="sandbox", tokens=None) as channel:
        stub = SandboxServiceStub(channel)
        print("{}", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            arguments = json.loads(line)
            result = await (step if arguments.pop("op") == "step" else start)(stub, **arguments)
            print(json.dumps({"result": result}), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
