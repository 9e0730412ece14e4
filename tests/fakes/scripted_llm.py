"""A real HTTP server that speaks OpenAI-compatible Chat Completions from a script."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any


@dataclass
class Reply:
    """One answer of the server.

    Attributes:
        text: the completion; None sends a null content.
        status: HTTP status; other than 200 sends an OpenAI-style error body with `text` as its message.
        delay: seconds before the answer; the wait ends early when the client hangs up.
        close: hang up instead of answering.
        finish_reason: "stop", or "length" for a cut completion.
        headers: further headers, such as Retry-After.
        prompt_tokens: usage as counted by the "provider".
        completion_tokens: usage as counted by the "provider".
        gate: when given, the answer waits until this event is set (or the client hangs up).
        error_code: the error body's code.
    """

    text: str | None = ""
    status: int = 200
    delay: float = 0.0
    close: bool = False
    finish_reason: str = "stop"
    headers: Mapping[str, str] = field(default_factory=dict)
    prompt_tokens: int = 11
    completion_tokens: int = 7
    gate: threading.Event | None = None
    error_code: str = "scripted"


@dataclass
class Request:
    """One call that the server received."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    index: int
    aborted: threading.Event = field(default_factory=threading.Event)
    client_port: int = 0

    @property
    def model(self) -> str:
        """The model asked for, as sent."""
        return str(self.body.get("model", ""))

    @property
    def prompt(self) -> str:
        """The text of all messages."""
        return "\n\n".join(_text(message.get("content")) for message in self.body.get("messages", []))


Script = Iterable[Reply | str] | Callable[[Request], Reply | str]


def action(code: str, reasoning: str = "Next step.") -> str:
    """A completion in DSPy's chat format that asks for `code` to be run."""
    return f"[[ ## reasoning ## ]]\n{reasoning}\n\n[[ ## code ## ]]\n```python\n{code}\n```\n\n[[ ## completed ## ]]"


def fields(**values: str) -> str:
    """A completion in DSPy's chat format with these output fields, as for extraction."""
    parts = [f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()]
    return "\n\n".join([*parts, "[[ ## completed ## ]]"])


class ScriptedLlm:
    """Serves `/v1/chat/completions` in a thread of its own; use it as a context manager.

    A script is a list of replies taken in order or a function of the request; with several models, give a mapping from
    model id to script (the key "*" takes the rest). An exhausted script answers HTTP 500.
    """

    def __init__(self, script: Script | Mapping[str, Script]) -> None:
        scripts = dict(script) if isinstance(script, Mapping) else {"*": script}
        self._scripts = {model: _as_function(each) for model, each in scripts.items()}
        self.requests: list[Request] = []
        self._arrived = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="scripted-llm", daemon=True)
        self._ready = threading.Event()
        self._stop: asyncio.Event
        self.port = 0

    @property
    def base_url(self) -> str:
        """What a client is to be configured with."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> ScriptedLlm:
        self._thread.start()
        if not self._ready.wait(10):
            raise TimeoutError("the scripted model did not start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def wait_for(self, count: int, timeout: float = 10.0) -> list[Request]:
        """Block until `count` requests have arrived and return them."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout):
                raise TimeoutError(f"{len(self.requests)} of {count} requests arrived")
            return list(self.requests)

    def of_model(self, model: str) -> list[Request]:
        """The requests for `model`."""
        return [request for request in self.requests if request.model == model]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._connection(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=64 << 20)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read_request(reader, len(self.requests)):
                request.client_port = writer.get_extra_info("peername")[1]
                with self._arrived:
                    self.requests.append(request)
                    self._arrived.notify_all()
                if not await self._answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        script = self._scripts.get(request.model) or self._scripts.get("*")
        reply = script(request) if script else Reply(f"no script for {request.model}", status=404)
        reply = Reply(reply) if isinstance(reply, str) else reply
        if await _client_left(reader, reply):
            request.aborted.set()
            return False
        if reply.close:
            return False
        body = json.dumps(_body(request, reply)).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        return True


def _as_function(script: Script) -> Callable[[Request], Reply | str]:
    if callable(script):
        return script
    replies = iter(list(script))
    return lambda request: next(replies, Reply("the script is exhausted", status=500))


async def _client_left(reader: asyncio.StreamReader, reply: Reply) -> bool:
    """Wait for the reply's time; return whether the client hung up meanwhile."""
    if not reply.delay and reply.gate is None:
        return False
    left = asyncio.ensure_future(reader.read(1))
    try:
        end = asyncio.get_running_loop().time() + (reply.delay or 60.0)
        while (rest := end - asyncio.get_running_loop().time()) > 0:
            if reply.gate is not None and reply.gate.is_set():
                return False
            done, _ = await asyncio.wait({left}, timeout=rest if reply.gate is None else min(rest, 0.01))
            if done:
                return True
        return False
    finally:
        # Ended before the next request is read: a stream has one reader at a time.
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader, index: int) -> Request | None:
    line = await reader.readline()
    if not line.strip():
        return None
    headers: dict[str, str] = {}
    while (header := await reader.readline()).strip():
        name, _, value = header.decode().partition(":")
        headers[name.strip().lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(line.decode().split()[1], headers, json.loads(raw or b"{}"), index)


def _body(request: Request, reply: Reply) -> dict[str, Any]:
    if reply.status != 200:
        return {"error": {"message": reply.text, "type": "scripted", "code": reply.error_code}}
    return {
        "id": f"chatcmpl-{request.index}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": reply.text},
                "finish_reason": reply.finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
            "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        },
    }


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""
