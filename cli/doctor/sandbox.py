"""A lease from acquisition to confirmed absence, with code that calls a host tool."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import grpc.aio
from fleet.sandbox.v1 import attach_pb2, lease_pb2, sandbox_service_pb2
from fleet.sandbox.v1.sandbox_service_pb2_grpc import SandboxServiceStub

from cli.doctor.check import TIMEOUT_SECONDS, CheckFailed
from services.common.channel import open_channel
from services.common.ids import new_id

if TYPE_CHECKING:
    from fleet.sandbox.v1.sandbox_service_pb2_grpc import SandboxServiceAsyncStub

CODE = b"print(double(21))"


@contextlib.asynccontextmanager
async def leased(stub: SandboxServiceAsyncStub, kind: lease_pb2.LeaseKind.ValueType) -> AsyncIterator[lease_pb2.Lease]:
    """A lease that is released at the end.

    Raises:
        CheckFailed: its sandbox isn't confirmed gone.
    """
    request = sandbox_service_pb2.AcquireLeaseRequest(
        request_id=f"doctor-{new_id()}", kind=kind, owner=lease_pb2.LeaseOwner(session="doctor")
    )
    request.ttl.FromSeconds(int(TIMEOUT_SECONDS))
    lease = await stub.AcquireLease(request, timeout=TIMEOUT_SECONDS)
    try:
        yield lease
    finally:
        released = await stub.ReleaseLease(sandbox_service_pb2.ReleaseLeaseRequest(name=lease.name))
    if not released.confirmed_absent:
        raise CheckFailed(f"the sandbox of {lease.name} is not confirmed gone: {released.lease.last_error}")


async def sandbox(address: str) -> str:
    """Acquire a sandbox, run code that calls a tool, release it and see it gone."""
    async with open_channel(address, service="sandbox", tokens=None) as channel:
        stub = SandboxServiceStub(channel)
        async with leased(stub, lease_pb2.LEASE_KIND_CHILD) as lease:
            call = stub.Attach()
            try:
                output = await asyncio.wait_for(_execute(call, lease), TIMEOUT_SECONDS)
            finally:
                call.cancel()
    if output.strip() != "42":
        raise CheckFailed(f"the code printed {output!r} instead of 42")
    return f"ran code with a tool call under {lease.isolation}; the sandbox is gone"


async def _execute(
    call: grpc.aio.StreamStreamCall[attach_pb2.AttachRequest, attach_pb2.AttachResponse], lease: lease_pb2.Lease
) -> str:
    tool = attach_pb2.ToolSpec(name="double", parameters=[attach_pb2.ToolParameter(name="n")])
    opened = attach_pb2.AttachOpen(lease=lease.name, epoch=lease.epoch, tools=[tool])
    await call.write(attach_pb2.AttachRequest(sequence=1, open=opened))
    execute = attach_pb2.Execute(execution_id="1", code=CODE, timeout_ms=10_000, max_output_bytes=1_000)
    await call.write(attach_pb2.AttachRequest(sequence=2, execute=execute))
    async for message in call:
        kind = message.WhichOneof("payload")
        if kind == "tool_call":
            doubled = json.dumps(json.loads(message.tool_call.arguments)["n"] * 2).encode()
            result = attach_pb2.ToolResult(call_id=message.tool_call.call_id, value=doubled)
            await call.write(attach_pb2.AttachRequest(sequence=3, ack=message.sequence, tool_result=result))
        elif kind == "done":
            return message.done.output
        elif kind == "lost":
            raise CheckFailed(f"the sandbox was lost: {message.lost.reason}")
    raise CheckFailed("the stream ended before the code did")
