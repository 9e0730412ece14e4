"""Between the Attach messages and the agent's frames; sequences and acknowledgements pass through unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.sandbox.v1 import attach_pb2

from services.common.errors import FleetError
from services.sandbox.agent import frames
from services.sandbox.agent.frames import Frame

_ENCODINGS = {
    attach_pb2.VARIABLE_ENCODING_TEXT: "text",
    attach_pb2.VARIABLE_ENCODING_JSON: "json",
    attach_pb2.VARIABLE_ENCODING_BYTES: "bytes",
}
_STATUSES = {
    "ok": attach_pb2.EXECUTION_STATUS_OK,
    "final": attach_pb2.EXECUTION_STATUS_FINAL,
    "syntax_error": attach_pb2.EXECUTION_STATUS_SYNTAX_ERROR,
    "error": attach_pb2.EXECUTION_STATUS_ERROR,
    "timed_out": attach_pb2.EXECUTION_STATUS_TIMED_OUT,
    "cancelled": attach_pb2.EXECUTION_STATUS_CANCELLED,
    "died": attach_pb2.EXECUTION_STATUS_DIED,
}


def to_frame(request: attach_pb2.AttachRequest) -> Frame:
    """Return the frame of a request; the epoch is the caller's to set.

    Raises:
        FleetError: `SANDBOX_PROTOCOL` when it says nothing.
    """
    kind = request.WhichOneof("payload")
    build = _REQUESTS.get(kind or "")
    if build is None:
        raise FleetError("SANDBOX_PROTOCOL", "The message says nothing.")
    frame = build(getattr(request, str(kind)))
    frame.sequence, frame.ack = request.sequence, request.ack
    return frame


def _open(message: attach_pb2.AttachOpen) -> Frame:
    tools = [
        {
            "name": tool.name,
            "parameters": [{"name": item.name, "optional": item.optional} for item in tool.parameters],
            "description": tool.description,
        }
        for tool in message.tools
    ]
    fields = [{"name": field.name, "type": field.type} for field in message.output_fields]
    return Frame(frames.OPEN, {"tools": tools, "output_fields": fields, "last_sequence": message.last_sequence})


def _execute(message: attach_pb2.Execute) -> Frame:
    variables = [
        {"name": item.name, "sha256": item.sha256, "encoding": _ENCODINGS.get(item.encoding, "")}
        for item in message.variables
    ]
    parts = [{"sha256": part.sha256, "length": len(part.data), "byte_size": part.byte_size} for part in message.values]
    control = {
        "execution_id": message.execution_id,
        "invocation": message.invocation,
        "code_bytes": len(message.code),
        "variables": variables,
        "values": parts,
        "partial": message.partial,
        "timeout_ms": message.timeout_ms,
        "max_output_bytes": message.max_output_bytes,
    }
    return Frame(frames.EXECUTE, control, b"".join((message.code, *(part.data for part in message.values))))


def _tool_result(message: attach_pb2.ToolResult) -> Frame:
    ok = message.WhichOneof("result") == "value"
    body = message.value if ok else message.error.encode()
    return Frame(frames.TOOL_RESULT, {"call_id": message.call_id, "ok": ok}, body)


def _cancel(message: attach_pb2.CancelExecution) -> Frame:
    return Frame(frames.CANCEL, {"execution_id": message.execution_id})


def _ping(message: attach_pb2.Ping) -> Frame:
    return Frame(frames.PING, {"nonce": message.nonce})


_REQUESTS: dict[str, Callable[[Any], Frame]] = {
    "open": _open,
    "execute": _execute,
    "tool_result": _tool_result,
    "cancel": _cancel,
    "ping": _ping,
}


def to_response(frame: Frame) -> attach_pb2.AttachResponse:
    """Return the response of a frame.

    Raises:
        FleetError: `SANDBOX_PROTOCOL` when the frame isn't one that the agent sends.
    """
    fill = _RESPONSES.get(frame.type)
    if fill is None:
        raise FleetError("SANDBOX_PROTOCOL", "The sandbox broke the protocol.")
    response = attach_pb2.AttachResponse(sequence=frame.sequence, ack=frame.ack)
    fill(response, frame.control, frame.body)
    return response


def _ready(response: attach_pb2.AttachResponse, control: dict[str, Any], body: bytes) -> None:
    ready = response.ready
    ready.epoch = control["epoch"]
    ready.protocol_version = control["protocol_version"]
    ready.python_version = control["python_version"]
    ready.mount_root = control["mount_root"]
    ready.last_sequence = control["last_sequence"]
    ready.values.extend(control["values"])


def _output(response: attach_pb2.AttachResponse, control: dict[str, Any], body: bytes) -> None:
    response.output.execution_id = control["execution_id"]
    response.output.stderr = control["stderr"]
    response.output.data = body


def _tool_call(response: attach_pb2.AttachResponse, control: dict[str, Any], body: bytes) -> None:
    call = response.tool_call
    call.execution_id, call.call_id, call.name = control["execution_id"], control["call_id"], control["name"]
    call.arguments = body


def _done(response: attach_pb2.AttachResponse, control: dict[str, Any], body: bytes) -> None:
    done = response.done
    output_end = control["output_length"]
    repr_end = output_end + control["repr_length"]
    done.execution_id = control["execution_id"]
    done.status = _STATUSES[control["status"]]
    done.output = body[:output_end].decode("utf-8", "replace")
    done.output_bytes = control["output_bytes"]
    done.truncated = control["truncated"]
    done.result_repr = body[output_end:repr_end].decode("utf-8", "replace")
    done.final = body[repr_end : repr_end + control["final_length"]]
    done.state_lost = control["state_lost"]
    done.duration_us = control["duration_us"]
    done.host_wait_us = control["host_wait_us"]
    error = control["error"]
    if error is not None:
        done.error.type, done.error.message = _text(error["type"]), _text(error["message"])
        done.error.line, done.error.traceback = error["line"], _text(error["traceback"])


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()


def _lost(response: attach_pb2.AttachResponse, control: dict[str, Any], body: bytes) -> None:
    response.lost.reason = control["reason"]


def _pong(response: attach_pb2.AttachResponse, control: dict[str, Any], body: bytes) -> None:
    response.pong.nonce = control["nonce"]


_RESPONSES: dict[int, Callable[[attach_pb2.AttachResponse, dict[str, Any], bytes], None]] = {
    frames.READY: _ready,
    frames.OUTPUT: _output,
    frames.TOOL_CALL: _tool_call,
    frames.DONE: _done,
    frames.LOST: _lost,
    frames.PONG: _pong,
}
