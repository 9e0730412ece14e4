"""Length-bounded binary frames: a fixed header, a small JSON control part and a raw body.

The header carries type, epoch, sequence and acknowledgement, so that a channel which was cut can go on where it
stopped. Sizes are checked before anything is allocated for them; a peer that breaks the rules gets a `FrameError`.
"""

from __future__ import annotations

import struct

from . import wire_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL_VERSION = 1

# Host to agent.
OPEN, EXECUTE, TOOL_RESULT, CANCEL, PING = 1, 2, 3, 4, 5
# Agent to host.
READY, OUTPUT, TOOL_CALL, DONE, LOST, PONG = 17, 18, 19, 20, 21, 22

TYPES = frozenset((OPEN, EXECUTE, TOOL_RESULT, CANCEL, PING, READY, OUTPUT, TOOL_CALL, DONE, LOST, PONG))

MAX_CONTROL_BYTES = 1 << 20
MAX_BODY_BYTES = 24 << 20

_MAGIC = 0xF1EE
_HEADER = struct.Struct(">HBBIQQII")
HEADER_BYTES = _HEADER.size


class FrameError(Exception):
    """The bytes are not a frame of this protocol, or it is larger than allowed."""


class Frame:
    """One message of the channel.

    Args:
        type: One of the constants of this module.
        control: Small JSON object.
        body: Raw bytes that belong to it.
        epoch: The lease's epoch.
        sequence: 1, 2, 3 … within the epoch and direction; 0 is outside the order and never repeated.
        ack: The last sequence of the other direction that was taken.
    """

    __slots__ = ("ack", "body", "control", "epoch", "sequence", "type")

    def __init__(
        self,
        type: int,
        control: dict[str, Any] | None = None,
        body: bytes = b"",
        *,
        epoch: int = 0,
        sequence: int = 0,
        ack: int = 0,
    ) -> None:
        self.type = type
        self.control: dict[str, Any] = {} if control is None else control
        self.body = body
        self.epoch = epoch
        self.sequence = sequence
        self.ack = ack

    def __repr__(self) -> str:
        return f"Frame({self.type}, {self.control!r}, {len(self.body)} bytes, epoch={self.epoch}, seq={self.sequence})"


def encode(frame: Frame) -> bytes:
    """Return the frame as bytes.

    Raises:
        FrameError: A part is larger than the protocol allows.
    """
    control = wire_json.dumps(frame.control) if frame.control else b""
    if len(control) > MAX_CONTROL_BYTES or len(frame.body) > MAX_BODY_BYTES:
        raise FrameError(f"frame too large: {len(control)} control bytes, {len(frame.body)} body bytes")
    header = _HEADER.pack(
        _MAGIC,
        PROTOCOL_VERSION,
        frame.type,
        frame.epoch,
        frame.sequence,
        frame.ack,
        len(control),
        len(frame.body),
    )
    return b"".join((header, control, frame.body))


def decode_header(header: bytes) -> tuple[Frame, int, int]:
    """Read a header of `HEADER_BYTES` bytes.

    Returns:
        A frame without its parts, the control part's length and the body's length.

    Raises:
        FrameError: It is no header of this protocol, or it announces more than is allowed.
    """
    magic, version, type_, epoch, sequence, ack, control_length, body_length = _HEADER.unpack(header)
    if magic != _MAGIC or version != PROTOCOL_VERSION or type_ not in TYPES:
        raise FrameError("not a frame of this protocol")
    if control_length > MAX_CONTROL_BYTES or body_length > MAX_BODY_BYTES:
        raise FrameError(f"frame too large: {control_length} control bytes, {body_length} body bytes")
    return Frame(type_, epoch=epoch, sequence=sequence, ack=ack), control_length, body_length


def decode_control(data: bytes) -> dict[str, Any]:
    """Read a control part.

    Raises:
        FrameError: It is not a JSON object.
    """
    if not data:
        return {}
    try:
        control = wire_json.loads(data)
    except ValueError as error:
        raise FrameError("the control part is not JSON") from error
    if not isinstance(control, dict):
        raise FrameError("the control part is not an object")
    return control


class Decoder:
    """Turns chunks of bytes, however they were cut, into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: tuple[Frame, int, int] | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes and return the frames that are complete.

        Raises:
            FrameError: The bytes break the protocol; the decoder is of no use after that.
        """
        self._buffer += data
        frames: list[Frame] = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> Frame | None:
        buffer = self._buffer
        if self._head is None:
            if len(buffer) < HEADER_BYTES:
                return None
            self._head = decode_header(bytes(buffer[:HEADER_BYTES]))
        frame, control_length, body_length = self._head
        body_start = HEADER_BYTES + control_length
        end = body_start + body_length
        if len(buffer) < end:
            return None
        frame.control = decode_control(bytes(buffer[HEADER_BYTES:body_start]))
        frame.body = bytes(buffer[body_start:end])
        del buffer[:end]
        self._head = None
        return frame
