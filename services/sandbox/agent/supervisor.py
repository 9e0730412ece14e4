"""The supervisor: one single-threaded loop between the host's channel and the worker.

Everything that comes from the worker is hostile: it is checked for form, belongs only to the execution that runs, and
a worker that breaks the rules is replaced.
"""

from __future__ import annotations

import os
import time

from . import frames, values
from .answers import Answer, ProtocolError, WorkerCall
from .calls import HostCalls
from .clock import StepClock
from .execution import Execution, OutputStream, Results, died, failure, stopped
from .frames import Frame, FrameError
from .host import HostChannel
from .limits import Limits, private_memory_bytes
from .processes import started
from .readiness import wait
from .requests import RunRequest, python_version
from .slot import WorkerLost, WorkerSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHECK_SECONDS = 0.25
# A short step is told whole at its end; listening to each of its prints would cost more than the step.
_QUIET_SECONDS = 0.002
_IDLE_CHECK_SECONDS = 2.0
_IDLE_OUTPUT_BYTES = 1 << 16
_NOTE_BYTES = 100


class Supervisor:
    """Serves one channel until the host closes it.

    Args:
        channel: To the host.
        limits: Of the worker.
        mount_root: Absolute path below which staged files lie; told to the host.
        grace_seconds: How long interrupted code may take to end before it is killed.
        child_signal: Descriptor that becomes readable when a process ended.
    """

    def __init__(
        self,
        channel: HostChannel,
        limits: Limits,
        mount_root: str,
        grace_seconds: float,
        child_signal: int,
    ) -> None:
        self._channel = channel
        self._limits = limits
        self._mount_root = mount_root
        self._grace = grace_seconds
        self._child_signal = child_signal
        self._slot = WorkerSlot(limits)
        self._values = values.ValueStore()
        self._configuration: dict[str, Any] = {"tools": [], "output_fields": []}
        self._running: Execution | None = None
        self._requests: dict[str, RunRequest] = {}
        self._results = Results()
        self._calls = HostCalls()
        self._lost_between: str = ""
        self._idle_output = OutputStream(_IDLE_OUTPUT_BYTES)
        self._check_due = 0.0
        self._listen_at = 0.0

    def serve(self) -> None:
        """Run until the host closes the channel or no worker can be made."""
        try:
            while self._turn():
                pass
        except WorkerLost as error:
            self._channel.send(frames.LOST, {"reason": str(error)})
        finally:
            self._channel.flush()
            self._slot.stop()

    def _turn(self) -> bool:
        now = time.monotonic()
        listens = now >= self._listen_at and not self._channel.congested
        ready = wait(self._channel, self._slot, self._child_signal, self._timeout_ms(now), outputs=listens)
        slot = self._slot.process
        for descriptor, stderr in ((slot.stdout, False), (slot.stderr, True)):
            if descriptor in ready:
                self._printed(stderr, self._slot.drain(descriptor))
        if slot.control in ready:
            self._from_worker()
        if self._child_signal in ready:
            os.read(self._child_signal, 4096)
            if self._slot.reap():
                self._worker_gone("")
        if self._channel.reader in ready and not self._from_host():
            return False
        self._check_time(time.monotonic())
        self._slot.flush()
        self._channel.flush()
        return True

    def _timeout_ms(self, now: float) -> float:
        waits = [self._check_due - now]
        if now < self._listen_at:
            waits.append(self._listen_at - now)
        stream = self._running.stream if self._running else self._idle_output
        if stream.due is not None:
            waits.append(stream.due - now)
        if self._running is not None:
            if self._running.kill_at is not None:
                waits.append(self._running.kill_at - now)
            remaining = self._running.clock.remaining()
            if remaining is not None and not self._running.stop_reason:
                # With a host call open the charge can only grow by what the processors give.
                waits.append(max(remaining, 0.02) if self._running.clock.open_calls else remaining)
        return max(0.0, min(waits)) * 1000 + 0.5

    def _check_time(self, now: float) -> None:
        stream = self._running.stream if self._running else self._idle_output
        if stream.due is not None and now >= stream.due:
            self._stream(stream)
        running = self._running
        if running is not None:
            if running.kill_at is not None and now >= running.kill_at:
                self._worker_gone("did not react to the interrupt")
            elif not running.stop_reason:
                running.clock.advance(now, self._slot.cpu())
                remaining = running.clock.remaining()
                if remaining is not None and remaining <= 0:
                    self._interrupt("timed_out", now)
        if now >= self._check_due:
            self._check_due = now + (_CHECK_SECONDS if self._running else _IDLE_CHECK_SECONDS)
            self._check_processes()

    def _check_processes(self) -> None:
        """Enforce what no limit of a single process can."""
        pids = started()
        if private_memory_bytes(pids) > self._limits.memory_mb << 20:
            self._worker_gone(f"was ended because it used more than {self._limits.memory_mb} MiB of memory")
        elif self._running is None and len(pids) > self._limits.processes // 2:
            # Copies that a fork bomb left behind would starve all further steps.
            self._slot.end_leftovers()

    def _interrupt(self, reason: str, now: float) -> None:
        if self._running is not None and not self._running.stop_reason:
            self._running.stop_reason = reason
            self._running.kill_at = now + self._grace
            self._slot.interrupt()

    def _printed(self, stderr: bool, data: bytes) -> None:
        if self._running is not None:
            self._running.printed(stderr, data, time.monotonic())
        else:
            self._idle_output.add(stderr, data, time.monotonic())

    def _stream(self, stream: OutputStream) -> None:
        execution_id = self._running.id if self._running else ""
        for stderr, data in stream.take():
            self._channel.send(frames.OUTPUT, {"execution_id": execution_id, "stderr": stderr}, data)

    def _drain_output(self) -> None:
        """Take everything that was printed up to here."""
        process = self._slot.process
        self._printed(False, self._slot.drain(process.stdout))
        self._printed(True, self._slot.drain(process.stderr))

    def _from_host(self) -> bool:
        try:
            arrived = self._channel.receive()
            for frame in arrived or ():
                self._host_frame(frame)
        except (FrameError, ProtocolError, values.VariableError) as error:
            self._channel.send(frames.LOST, {"reason": f"protocol: {error}"})
            return False
        except (KeyError, TypeError, ValueError):
            self._channel.send(frames.LOST, {"reason": "protocol: malformed request"})
            return False
        return arrived is not None

    def _host_frame(self, frame: Frame) -> None:
        channel = self._channel
        if frame.epoch < channel.epoch or (frame.type != frames.OPEN and frame.epoch != channel.epoch):
            channel.write(Frame(frames.LOST, {"reason": "stale epoch"}, epoch=frame.epoch))
            return
        if frame.type == frames.OPEN:
            self._open(frame)
            return
        channel.outbox.acknowledge(frame.ack)
        verdict = channel.inbox.take(frame.sequence)
        if verdict == "gap":
            raise ProtocolError(f"request {channel.inbox.taken + 1} is missing")
        if verdict == "repeated":
            return
        if frame.type == frames.EXECUTE:
            self._execute(frame)
        elif frame.type == frames.TOOL_RESULT:
            self._tool_result(frame)
        elif frame.type == frames.CANCEL:
            if self._running is not None and self._running.id == frame.control["execution_id"]:
                self._interrupt("cancelled", time.monotonic())
        elif frame.type == frames.PING:
            channel.send(frames.PONG, {"nonce": frame.control.get("nonce", 0)})
        else:
            raise ProtocolError("not a request")

    def _open(self, frame: Frame) -> None:
        channel, control = self._channel, frame.control
        last_sequence = int(control.get("last_sequence", 0))
        begins = frame.epoch > channel.epoch or (last_sequence == 0 and frame.sequence <= 1)
        if begins:
            channel.begin(frame.epoch)
        if channel.inbox.take(frame.sequence, ahead=True) == "gap":
            raise ProtocolError("too many requests are missing")
        configuration = {"tools": control["tools"], "output_fields": control["output_fields"]}
        if begins or configuration != self._configuration:
            self._configuration = configuration
            self._calls.allow(tool["name"] for tool in configuration["tools"])
            self._slot.send(frames.OPEN, configuration)
        if not begins:
            channel.resume(last_sequence)
        channel.send(
            frames.READY,
            {
                "epoch": channel.epoch,
                "protocol_version": frames.PROTOCOL_VERSION,
                "python_version": python_version(),
                "mount_root": self._mount_root,
                "last_sequence": channel.inbox.taken,
                "values": self._values.hashes(),
            },
        )

    def _execute(self, frame: Frame) -> None:
        request = self._requests.setdefault(frame.control["execution_id"], RunRequest(frame.control["execution_id"]))
        code = request.add(frame, self._values)
        if code is None:
            return
        del self._requests[request.id]
        if self._running is not None and self._running.id == request.id:
            return
        result = self._results.get(request.id)
        if result is not None:
            self._channel.send(frames.DONE, *result)
        elif self._running is not None:
            raise ProtocolError("another execution is running")
        else:
            self._start(request, code)

    def _start(self, request: RunRequest, code: bytes) -> None:
        self._enter(request.invocation)
        now = time.monotonic()
        self._drain_output()
        self._stream(self._idle_output)
        self._idle_output = OutputStream(_IDLE_OUTPUT_BYTES)
        clock = StepClock(now, self._slot.cpu(), request.timeout_seconds)
        self._running = Execution(request.id, request.max_output_bytes, clock, now)
        if self._lost_between:
            reason, self._lost_between = self._lost_between, ""
            self._finish("died", error=died(reason, "between two steps; nothing of this step ran"), state_lost=True)
            return
        try:
            for variable in request.variables:
                self._slot.send_value(variable["sha256"], self._values.get(variable["sha256"]))
        except values.VariableError as error:
            self._finish("error", error=failure("VariableError", str(error)), remember=False)
            return
        dropped = self._slot.forget_values(self._values.dropped)
        self._values.dropped.clear()
        self._slot.grant_cpu()
        self._listen_at = now + _QUIET_SECONDS
        self._check_due = min(self._check_due, now + _CHECK_SECONDS)
        self._slot.send(frames.EXECUTE, request.for_worker(len(code), dropped), code)

    def _enter(self, invocation: str) -> None:
        """End the processes that an earlier invocation left behind; its threads are known by their marks."""
        if self._calls.invocation not in (None, invocation):
            self._slot.end_leftovers()
        self._calls.invocation = invocation

    def _tool_result(self, frame: Frame) -> None:
        worker_call = self._calls.closed(frame.control["call_id"])
        if worker_call is None or self._running is None:
            return
        self._running.clock.call_closed(time.monotonic(), self._slot.cpu())
        self._slot.send(frames.TOOL_RESULT, {"call_id": worker_call, "ok": bool(frame.control["ok"])}, frame.body)

    def _from_worker(self) -> None:
        try:
            loss = self._read_worker()
        except (FrameError, ProtocolError):
            loss = "was ended because its code broke the interpreter's own pipe"
        # Not inside the handler: a worker that is forked there would show this error in every traceback of its code.
        if loss is not None:
            self._worker_gone(loss)

    def _read_worker(self) -> str | None:
        """Handle what the worker sent; return how it was lost, which is empty when its end will tell, or None."""
        process = self._slot.process
        arrived = self._slot.receive()
        if arrived is None:
            return ""
        for frame in arrived:
            self._worker_frame(frame)
            if self._slot.process is not process:
                break
        return None

    def _worker_frame(self, frame: Frame) -> None:
        if frame.type == frames.READY:
            self._slot.was_ready()
        elif frame.type == frames.TOOL_CALL:
            self._tool_call(frame)
        elif frame.type == frames.DONE:
            self._worker_done(frame)
        else:
            raise ProtocolError("not an answer")

    def _tool_call(self, frame: Frame) -> None:
        call = WorkerCall(frame)
        refusal = self._calls.refusal(call, running=self._running is not None, full=self._channel.outbox.full)
        if refusal or self._running is None:
            if self._slot.congested:
                raise ProtocolError("calls without end whose answers nobody reads")
            self._slot.send(frames.TOOL_RESULT, {"call_id": call.id, "ok": False}, refusal.encode())
            return
        self._drain_output()
        self._stream(self._running.stream)
        call_id = self._calls.opened(call, self._channel.epoch)
        self._running.clock.call_opened(time.monotonic(), self._slot.cpu())
        control = {"execution_id": self._running.id, "call_id": call_id, "name": call.name}
        self._channel.send(frames.TOOL_CALL, control, frame.body)

    def _worker_done(self, frame: Frame) -> None:
        answer, running = Answer(frame), self._running
        if running is None or answer.execution_id != running.id:
            raise ProtocolError("the result of an execution that doesn't run")
        self._drain_output()
        status, error = answer.status, answer.error
        if running.stop_reason and status != "final" and answer.interrupted:
            status = running.stop_reason
            error = dict(error or failure("", ""), type="KeyboardInterrupt", message=stopped(status, kept=True))
        result_repr = answer.result_repr[: running.capture.limit + _NOTE_BYTES]
        self._finish(status, error=error, result_repr=result_repr, final=answer.final)

    def _worker_gone(self, reason: str) -> None:
        """Replace the worker; what ran in it ends, and a host that believes in its state is told."""
        self._drain_output()
        how = self._slot.replace()
        self._slot.send(frames.OPEN, self._configuration)
        if self._running is None:
            self._lost_between = reason or how
            return
        status = self._running.stop_reason or "died"
        error = (
            failure("TimeoutError" if status == "timed_out" else "KeyboardInterrupt", stopped(status, kept=False))
            if self._running.stop_reason
            else died(reason or how, "during the step")
        )
        self._finish(status, error=error, state_lost=True)

    def _finish(
        self,
        status: str,
        *,
        error: dict[str, Any] | None = None,
        result_repr: bytes = b"",
        final: bytes = b"",
        state_lost: bool = False,
        remember: bool = True,
    ) -> None:
        running = self._running
        if running is None:
            return
        now = time.monotonic()
        running.clock.advance(now, self._slot.cpu())
        self._stream(running.stream)
        result = running.done(status, now, error=error, result_repr=result_repr, final=final, state_lost=state_lost)
        self._running = None
        self._refuse_open_calls()
        if status not in ("ok", "final"):
            self._check_processes()
        if remember:
            self._results.keep(running.id, result)
        self._channel.send(frames.DONE, *result)

    def _refuse_open_calls(self) -> None:
        """Wake the threads that still wait for the host when their step ends."""
        for worker_call in self._calls.end():
            self._slot.send(frames.TOOL_RESULT, {"call_id": worker_call, "ok": False}, b"the step has ended")
