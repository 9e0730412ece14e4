"""A client of an agent's channel, for tests: opens, runs code, answers tool calls."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.sandbox.agent import frames
from services.sandbox.agent.frames import Frame
from services.sandbox.providers.base import FrameChannel

Tool = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Result:
    """A DONE frame, unpacked."""

    status: str
    output: str
    result_repr: str
    final: Any
    error: dict[str, Any]
    state_lost: bool
    output_bytes: int
    truncated: bool
    seconds: float
    host_wait: float

    @classmethod
    def of(cls, frame: Frame) -> Result:
        control, body = frame.control, frame.body
        output_end = control["output_length"]
        repr_end = output_end + control["repr_length"]
        final = body[repr_end:]
        return cls(
            control["status"],
            body[:output_end].decode(),
            body[output_end:repr_end].decode(),
            json.loads(final) if final else None,
            control["error"] or {},
            control["state_lost"],
            control["output_bytes"],
            control["truncated"],
            control["duration_us"] / 1e6,
            control["host_wait_us"] / 1e6,
        )


@dataclass
class Interpreter:
    """Speaks to one agent; every test opens it anew with its own tools."""

    channel: FrameChannel
    epoch: int = 1
    sequence: int = 0
    seen: int = 0
    streamed: list[tuple[str, bool, bytes]] = field(default_factory=list)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    tools: dict[str, Tool] = field(default_factory=dict)
    answering: set[asyncio.Task[None]] = field(default_factory=set)
    count: int = 0

    async def send(self, type_: int, control: dict[str, Any] | None = None, body: bytes = b"") -> None:
        self.sequence += 1
        await self.channel.send(Frame(type_, control, body, epoch=self.epoch, sequence=self.sequence, ack=self.seen))

    async def receive(self) -> Frame:
        frame = await asyncio.wait_for(self.channel.receive(), 30)
        assert frame is not None, "the sandbox is gone"
        self.seen = max(self.seen, frame.sequence)
        return frame

    async def open(self, fields: Sequence[tuple[str, str]] = (), **tools: tuple[Tool, Sequence[str]]) -> Frame:
        """Open; a parameter name that ends in "?" is optional."""
        self.tools = {name: tool for name, (tool, _) in tools.items()}
        specs = [
            {
                "name": name,
                "description": f"About {name}.",
                "parameters": [{"name": item.rstrip("?"), "optional": item.endswith("?")} for item in parameters],
            }
            for name, (_, parameters) in tools.items()
        ]
        outputs = [{"name": name, "type": kind} for name, kind in fields]
        control = {"tools": specs, "output_fields": outputs, "last_sequence": self.seen}
        await self.send(frames.OPEN, control)
        while (frame := await self.receive()).type != frames.READY:
            pass
        return frame

    async def start(
        self,
        code: str | bytes,
        *,
        timeout: float = 10.0,
        max_output: int = 20_000,
        variables: Sequence[tuple[str, str, bytes]] = (),
        send_values: bool = True,
        execution_id: str = "",
        invocation: str = "",
    ) -> str:
        self.count += 1
        execution_id = execution_id or f"e{self.epoch}-{self.count}"
        body = code.encode("utf-8", "surrogatepass") if isinstance(code, str) else code
        control: dict[str, Any] = {
            "execution_id": execution_id,
            "invocation": invocation,
            "code_bytes": len(body),
            "variables": [
                {"name": name, "sha256": _hash(encoding, data), "encoding": encoding}
                for name, encoding, data in variables
            ],
            "values": [],
            "partial": False,
            "timeout_ms": round(timeout * 1000),
            "max_output_bytes": max_output,
        }
        for _, encoding, data in variables if send_values else ():
            control["values"].append({"sha256": _hash(encoding, data), "length": len(data), "byte_size": len(data)})
            body += data
        await self.send(frames.EXECUTE, control, body)
        return execution_id

    async def finish(self, execution_id: str) -> Result:
        while True:
            frame = await self.receive()
            if frame.type == frames.OUTPUT:
                self.streamed.append((frame.control["execution_id"], frame.control["stderr"], frame.body))
            elif frame.type == frames.TOOL_CALL:
                task = asyncio.create_task(self._answer(frame))
                self.answering.add(task)
                task.add_done_callback(self.answering.discard)
            elif frame.type == frames.DONE and frame.control["execution_id"] == execution_id:
                return Result.of(frame)
            else:
                assert frame.type in (frames.DONE, frames.READY, frames.PONG), frame

    async def run(self, code: str | bytes, **options: Any) -> Result:
        return await self.finish(await self.start(code, **options))

    async def cancel(self, execution_id: str) -> None:
        await self.send(frames.CANCEL, {"execution_id": execution_id})

    async def _answer(self, frame: Frame) -> None:
        arguments = json.loads(frame.body)
        self.calls.append((frame.control["execution_id"], frame.control["name"], arguments))
        try:
            value = json.dumps(await self.tools[frame.control["name"]](**arguments)).encode()
            ok = True
        except Exception as error:
            ok, value = False, str(error).encode()
        await self.send(frames.TOOL_RESULT, {"call_id": frame.control["call_id"], "ok": ok}, value)

    async def close(self) -> None:
        for task in self.answering:
            task.cancel()
        if self.answering:
            await asyncio.wait(self.answering)


def _hash(encoding: str, data: bytes) -> str:
    return hashlib.sha256(encoding.encode() + data).hexdigest()
