"""A broker that only attaches: runs code in threads of the test process, over the real protocol."""

from __future__ import annotations

import ast
import asyncio
import ctypes
import hashlib
import io
import json
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from fleet.sandbox.v1 import attach_pb2, sandbox_service_pb2_grpc

INTERRUPTED = "KeyboardInterrupt: the step was interrupted"


class WorkerDiedError(BaseException):
    """Sandbox code called `die()`."""


class _Submitted(BaseException):
    def __init__(self, outputs: dict[str, Any]) -> None:
        super().__init__()
        self.outputs = outputs


class FakeSandbox:
    """One lease's interpreter: a namespace that lives on, an inbox and an outbox with sequences.

    Sandbox code may also call `die()`, as if its process had died.

    Attributes:
        executions: ids in the order in which they ran.
        codes: the code of each.
        received_bytes: bytes of variable values that arrived.
        cancelled: ids that were asked to stop.
        died_between: set it to have the worker found dead at the next execution.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.executions: list[str] = []
        self.codes: list[str] = []
        self.received_bytes = 0
        self.cancelled: list[str] = []
        self.died_between = False
        self.opened: attach_pb2.AttachOpen = attach_pb2.AttachOpen()
        self.taken = 0
        self.ahead: set[int] = set()
        self._namespace: dict[str, Any] = {}
        self._values: dict[str, bytes] = {}
        self._partial: dict[str, bytearray] = {}
        self._sequence = 0
        self._outbox: list[attach_pb2.AttachResponse] = []
        self._wake = asyncio.Event()
        self._calls: dict[str, tuple[threading.Event, list[attach_pb2.ToolResult]]] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._stopping: set[str] = set()
        self._lock = threading.Lock()
        self._count = 0

    def take(self, request: attach_pb2.AttachRequest) -> None:
        """Handle one request once."""
        self._outbox = [response for response in self._outbox if response.sequence > request.ack]
        if request.sequence <= self.taken or request.sequence in self.ahead:
            return
        if request.sequence == self.taken + 1:
            self.taken += 1
            while self.taken + 1 in self.ahead:
                self.ahead.discard(self.taken + 1)
                self.taken += 1
        else:
            assert request.WhichOneof("payload") == "open", f"gap before {request.sequence}"
            self.ahead.add(request.sequence)
        match request.WhichOneof("payload"):
            case "open":
                self._open(request.open)
            case "execute":
                self._execute(request.execute)
            case "tool_result":
                self._result(request.tool_result)
            case "cancel":
                self._cancel(request.cancel.execution_id)
            case "ping":
                self.say(pong=attach_pb2.Pong(nonce=request.ping.nonce))

    def say(self, **payload: Any) -> None:
        """Queue one response; event loop only."""
        self._sequence += 1
        self._outbox.append(attach_pb2.AttachResponse(sequence=self._sequence, ack=self.taken, **payload))
        self._wake.set()

    async def responses(self, after: int) -> AsyncIterator[attach_pb2.AttachResponse]:
        """Yield responses beyond `after`, for ever."""
        while True:
            self._wake.clear()
            for response in [each for each in self._outbox if each.sequence > after]:
                after = response.sequence
                yield response
            if not any(each.sequence > after for each in self._outbox):
                await self._wake.wait()

    def drop_values(self) -> None:
        """Forget every value, as a sandbox that had to make room."""
        self._values.clear()

    async def stop(self) -> None:
        """Interrupt what runs and wait for its threads."""
        threads = dict(self._threads)
        for execution_id in threads:
            self._cancel(execution_id)
        for thread in threads.values():
            await asyncio.to_thread(thread.join, 5)

    def _say_soon(self, **payload: Any) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(lambda: self.say(**payload))

    def _open(self, opened: attach_pb2.AttachOpen) -> None:
        self.opened = opened
        for spec in opened.tools:
            self._namespace[spec.name] = self._tool(spec)
        names = [field.name for field in opened.output_fields]

        def submit(*args: Any, **kwargs: Any) -> None:
            raise _Submitted({**dict(zip(names, args, strict=False)), **kwargs})

        def die() -> None:
            raise WorkerDiedError

        self._namespace.update(SUBMIT=submit, die=die)
        self.say(
            ready=attach_pb2.Ready(
                epoch=opened.epoch,
                protocol_version=1,
                python_version="3",
                mount_root="/workspace",
                last_sequence=self.taken,
                values=list(self._values),
            )
        )

    def _tool(self, spec: attach_pb2.ToolSpec) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            names = [parameter.name for parameter in spec.parameters]
            bound = {**dict(zip(names, args, strict=False)), **kwargs}
            execution = threading.current_thread().name
            event: threading.Event = threading.Event()
            results: list[attach_pb2.ToolResult] = []
            self._count += 1
            call_id = f"call-{self._count}"
            self._calls[call_id] = (event, results)
            self._say_soon(
                tool_call=attach_pb2.ToolCall(
                    execution_id=execution, call_id=call_id, name=spec.name, arguments=json.dumps(bound).encode()
                )
            )
            while not event.wait(0.02):
                if execution in self._stopping:
                    raise KeyboardInterrupt
            if results[0].WhichOneof("result") == "error":
                raise RuntimeError(results[0].error)
            return json.loads(results[0].value)

        call.__name__ = spec.name
        return call

    def _result(self, result: attach_pb2.ToolResult) -> None:
        event, results = self._calls.pop(result.call_id)
        results.append(result)
        event.set()

    def _execute(self, message: attach_pb2.Execute) -> None:
        for part in message.values:
            self.received_bytes += len(part.data)
            buffer = self._partial.setdefault(part.sha256, bytearray())
            buffer += part.data
            if len(buffer) == part.byte_size:
                self._values[part.sha256] = bytes(self._partial.pop(part.sha256))
        if message.partial or message.execution_id in self.executions:
            return
        self.executions.append(message.execution_id)
        if any(variable.sha256 not in self._values for variable in message.variables):
            error = attach_pb2.ExecutionError(type="VariableError", message="the bytes of a variable were not sent")
            status = attach_pb2.EXECUTION_STATUS_ERROR
            self.say(done=attach_pb2.Done(execution_id=message.execution_id, status=status, error=error))
            return
        if self.died_between:
            self.died_between = False
            self._namespace.clear()
            self._reopen()
            status = attach_pb2.EXECUTION_STATUS_DIED
            self.say(done=attach_pb2.Done(execution_id=message.execution_id, status=status, state_lost=True))
            return
        self.codes.append(message.code.decode("utf-8", "surrogatepass"))
        thread = threading.Thread(target=self._guarded, args=(message,), name=message.execution_id, daemon=True)
        self._threads[message.execution_id] = thread
        thread.start()

    def _cancel(self, execution_id: str) -> None:
        self.cancelled.append(execution_id)
        self._stopping.add(execution_id)
        # Under the lock, because the identity of a thread that has ended may be another thread's by now.
        with self._lock:
            thread = self._threads.get(execution_id)
            if thread is not None and thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt)
                )

    def _guarded(self, message: attach_pb2.Execute) -> None:
        done = attach_pb2.Done(execution_id=message.execution_id, status=attach_pb2.EXECUTION_STATUS_CANCELLED)
        try:
            try:
                done = self._run(message)
            finally:
                with self._lock:
                    self._threads.pop(message.execution_id, None)
        except KeyboardInterrupt:
            pass  # the interrupt arrived just when the code had ended
        self._say_soon(done=done)

    def _run(self, message: attach_pb2.Execute) -> attach_pb2.Done:
        printed = io.StringIO()
        done = attach_pb2.Done(execution_id=message.execution_id, status=attach_pb2.EXECUTION_STATUS_OK)
        try:
            self._set_variables(message)
            self._namespace["print"] = self._printer(message.execution_id, printed)
            value = _run_code(message.code.decode("utf-8", "surrogatepass"), self._namespace)
            if value is not None and not printed.getvalue():
                done.result_repr = repr(value)
        except _Submitted as submitted:
            done.status = attach_pb2.EXECUTION_STATUS_FINAL
            done.final = json.dumps(submitted.outputs).encode()
        except WorkerDiedError:
            done.status, done.state_lost = attach_pb2.EXECUTION_STATUS_DIED, True
            self._namespace.clear()
            self.loop.call_soon_threadsafe(self._reopen)
        except SyntaxError as error:
            done.status = attach_pb2.EXECUTION_STATUS_SYNTAX_ERROR
            done.error.CopyFrom(attach_pb2.ExecutionError(type="SyntaxError", message=str(error)))
        except KeyboardInterrupt:
            done.status = attach_pb2.EXECUTION_STATUS_CANCELLED
            done.error.CopyFrom(attach_pb2.ExecutionError(type="KeyboardInterrupt", message="interrupted"))
        except BaseException as error:
            done.status = attach_pb2.EXECUTION_STATUS_ERROR
            lines = traceback.format_exception_only(error)
            done.error.CopyFrom(
                attach_pb2.ExecutionError(type=type(error).__name__, message=str(error), traceback="".join(lines))
            )
        _cap(done, printed.getvalue().encode(), message.max_output_bytes)
        return done

    def _reopen(self) -> None:
        for spec in self.opened.tools:
            self._namespace[spec.name] = self._tool(spec)

    def _printer(self, execution_id: str, printed: io.StringIO) -> Callable[..., None]:
        def echo(*values: Any, sep: str = " ", end: str = "\n", **_: Any) -> None:
            text = sep.join(map(str, values)) + end
            printed.write(text)
            data = text.encode("utf-8", "replace")
            self._say_soon(output=attach_pb2.Output(execution_id=execution_id, data=data))

        return echo

    def _set_variables(self, message: attach_pb2.Execute) -> None:
        for variable in message.variables:
            data = self._values[variable.sha256]
            digest = hashlib.sha256(bytes([int(variable.encoding)]) + data).hexdigest()
            assert digest == variable.sha256
            if variable.encoding == attach_pb2.VARIABLE_ENCODING_TEXT:
                self._namespace[variable.name] = data.decode("utf-8", "surrogatepass")
            elif variable.encoding == attach_pb2.VARIABLE_ENCODING_JSON:
                self._namespace[variable.name] = json.loads(data)
            else:
                self._namespace[variable.name] = data


def _run_code(code: str, namespace: dict[str, Any]) -> Any:
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<step>", "exec"), namespace)
    return eval(compile(ast.Expression(last.value), "<step>", "eval"), namespace) if last is not None else None


def _cap(done: attach_pb2.Done, printed: bytes, limit: int) -> None:
    done.output_bytes = len(printed)
    if limit and len(printed) > limit:
        printed = printed[: limit // 2] + b"\n...\n" + printed[-limit // 2 :]
        done.truncated = True
    done.output = printed.decode("utf-8", "replace")


class AttachServicer(sandbox_service_pb2_grpc.SandboxServiceServicer):
    """Attaches every lease to a FakeSandbox of its own.

    Attributes:
        sandboxes: by lease name.
        attaches: how many streams were opened.
        refuse: when given, aborts every new stream with this code.
    """

    def __init__(self) -> None:
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.attaches = 0
        self.refuse: grpc.StatusCode | None = None
        self._streams: set[asyncio.Task[Any]] = set()

    async def Attach(
        self, request_iterator: AsyncIterator[attach_pb2.AttachRequest], context: Any
    ) -> AsyncIterator[attach_pb2.AttachResponse]:
        """Serve one stream."""
        self.attaches += 1
        if self.refuse is not None:
            await context.abort(self.refuse, "refused")
        first = await anext(aiter(request_iterator))
        loop = asyncio.get_running_loop()
        sandbox = self.sandboxes.setdefault(first.open.lease, FakeSandbox(loop))
        sandbox.take(first)

        async def read() -> None:
            async for request in request_iterator:
                sandbox.take(request)

        reader = loop.create_task(read())
        self._cut = loop.create_future()
        cut = self._cut
        responses = sandbox.responses(first.open.last_sequence)
        try:
            while True:
                following = asyncio.ensure_future(anext(responses))
                await asyncio.wait({following, cut}, return_when=asyncio.FIRST_COMPLETED)
                if cut.done():
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
                response = following.result()
                yield response
                if response.WhichOneof("payload") == "lost":
                    return
        finally:
            following.cancel()
            reader.cancel()
            await asyncio.gather(reader, following, return_exceptions=True)

    def cut(self) -> None:
        """Break the connection of the latest stream; its sandbox lives on."""
        self._cut.set_result(None)


@asynccontextmanager
async def attach_server(servicer: AttachServicer | None = None) -> AsyncIterator[tuple[AttachServicer, Any]]:
    """Run a server on 127.0.0.1 and yield the servicer and a stub for it."""
    servicer = servicer or AttachServicer()
    options = [("grpc.max_send_message_length", 16 << 20), ("grpc.max_receive_message_length", 16 << 20)]
    server = grpc.aio.server(options=options)
    sandbox_service_pb2_grpc.add_SandboxServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        try:
            yield servicer, sandbox_service_pb2_grpc.SandboxServiceStub(channel)
        finally:
            await server.stop(None)
            for sandbox in servicer.sandboxes.values():
                await sandbox.stop()
