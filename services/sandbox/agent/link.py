"""The worker's end of its control socket: a reader thread, host calls from any thread."""

from __future__ import annotations

import _queue
import _thread
import os

from . import frames, wire_json
from .frames import Frame
from .interrupts import Interrupts
from .lineage import Lineage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_READ_BYTES = 1 << 16


class ToolError(RuntimeError):
    """A host tool failed; the message is the host's."""


class _Call:
    __slots__ = ("arrived", "result")

    def __init__(self) -> None:
        self.arrived = _thread.allocate_lock()
        self.arrived.acquire()
        self.result: Frame | None = None


class Link:
    """Carries commands in and host calls out.

    Args:
        descriptor: The control socket.
        interrupts: Told while a frame is being written, so that an interrupt can't cut it.
        lineage: Says which invocation a calling thread belongs to.
    """

    def __init__(self, descriptor: int, interrupts: Interrupts, lineage: Lineage) -> None:
        self._descriptor = descriptor
        self._interrupts = interrupts
        self._lineage = lineage
        self._commands: _queue.SimpleQueue[Frame] = _queue.SimpleQueue()
        self._send_lock = _thread.allocate_lock()
        self._calls: dict[str, _Call] = {}
        self._last_call = 0
        self._main = _thread.get_ident()
        self.forked = False
        os.register_at_fork(after_in_child=self._after_fork)
        _thread.start_new_thread(self._read, ())

    def _after_fork(self) -> None:
        """A process that model code forked must neither read commands nor write results."""
        if not self.forked:
            self.forked = True
            os.close(self._descriptor)

    def _read(self) -> None:
        decoder = frames.Decoder()
        try:
            while data := os.read(self._descriptor, _READ_BYTES):
                for frame in decoder.feed(data):
                    if frame.type == frames.TOOL_RESULT:
                        self._resolve(frame)
                    else:
                        self._commands.put(frame)
        finally:
            # Without its supervisor, or with a socket that model code broke, the worker has nothing to live for.
            os._exit(71)

    def _resolve(self, frame: Frame) -> None:
        call = self._calls.pop(str(frame.control.get("call_id")), None)
        if call is not None:
            call.result = frame
            call.arrived.release()

    def next_command(self) -> Frame:
        """Wait for the next command."""
        return self._commands.get()

    @property
    def idle(self) -> bool:
        """Whether no command waits."""
        return self._commands.empty()

    def send(self, frame: Frame) -> None:
        """Write a whole frame."""
        data = memoryview(frames.encode(frame))
        main = _thread.get_ident() == self._main
        if main:
            self._interrupts.enter_critical()
        try:
            with self._send_lock:
                while data:
                    data = data[os.write(self._descriptor, data) :]
        finally:
            if main:
                self._interrupts.leave_critical()

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a host tool and wait for its result; any thread may, and several at once.

        Raises:
            TypeError: An argument has no JSON form.
            ToolError: The tool failed on the host, or the calling thread belongs to an invocation that is over.
            RuntimeError: The calling process was forked from the interpreter.
        """
        if self.forked:
            raise RuntimeError(f"{name}() works only in the interpreter process, not in one forked from it")
        body = encode_arguments(name, arguments)
        call = _Call()
        self._last_call += 1
        call_id = f"{_thread.get_ident():x}-{self._last_call}"
        self._calls[call_id] = call
        try:
            control = {"call_id": call_id, "name": name, "invocation": self._lineage.own}
            self.send(Frame(frames.TOOL_CALL, control, body))
            call.arrived.acquire()
        finally:
            self._calls.pop(call_id, None)
        result = call.result
        if result is None or not result.control.get("ok"):
            raise ToolError(result.body.decode("utf-8", "replace") if result else "the host gave no result")
        return wire_json.loads(result.body)


MAX_VALUE_BYTES = 8 << 20


def encode_arguments(name: str, arguments: dict[str, Any]) -> bytes:
    """Return a call's arguments as JSON.

    Raises:
        TypeError: One of them has no JSON form; the message names it.
        ValueError: They are larger than `MAX_VALUE_BYTES`.
    """
    try:
        data = wire_json.dumps(arguments)
    except (TypeError, ValueError, RecursionError):
        for key, value in arguments.items():
            reason = _why_not_json(value)
            if reason:
                raise TypeError(f"{name}() argument {key!r} is not JSON serializable: {reason}") from None
        raise TypeError(f"{name}() arguments are not JSON serializable") from None
    if len(data) > MAX_VALUE_BYTES:
        raise ValueError(f"{name}() arguments take {len(data)} bytes as JSON; at most {MAX_VALUE_BYTES} are allowed")
    return data


def _why_not_json(value: object) -> str:
    try:
        wire_json.dumps(value)
    except RecursionError:
        return "it is nested too deeply"
    except (TypeError, ValueError) as error:
        return str(error)
    return ""
