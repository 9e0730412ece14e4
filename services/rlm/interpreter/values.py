"""Variables as bytes: encoded once, named by content hash, cut into parts that fit a message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from fleet.sandbox.v1 import attach_pb2

PART_BYTES = 4 << 20
"""Most bytes of a value in one message."""


class ValueNotJsonError(TypeError):
    """A variable or a result can't cross into the sandbox."""


@dataclass(frozen=True)
class Encoded:
    """A value's bytes.

    Attributes:
        encoding: how they are read.
        data: the bytes.
        sha256: hash of the encoding's number as one byte and the bytes, hexadecimal.
    """

    encoding: attach_pb2.VariableEncoding.ValueType
    data: bytes
    sha256: str


def encode(value: object) -> Encoded:
    """Encode text as UTF-8 with lone surrogates kept, bytes as they are, anything else as JSON.

    Raises:
        ValueNotJsonError: the value is none of these.
    """
    if isinstance(value, str):
        return _encoded(attach_pb2.VARIABLE_ENCODING_TEXT, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return _encoded(attach_pb2.VARIABLE_ENCODING_BYTES, value)
    return _encoded(attach_pb2.VARIABLE_ENCODING_JSON, to_json(value))


def to_json(value: object, *, allow_nan: bool = True) -> bytes:
    """Return `value` as compact JSON.

    Raises:
        ValueNotJsonError: it is not JSON-compatible, or not finite and `allow_nan` is off.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=allow_nan)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueNotJsonError(f"a {type(value).__name__} that is not JSON: {error}") from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Lone surrogates have no UTF-8 form; JSON's own escapes carry them.
        return json.dumps(value, separators=(",", ":"), allow_nan=allow_nan).encode()


class ValueCache:
    """Remembers how the objects of one invocation were encoded, so that a large input is hashed once.

    The cached objects are held, and must not be changed, until `clear`.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Encoded]] = {}

    def encode(self, value: object) -> Encoded:
        """Encode `value`, or return what it was encoded to before."""
        known = self._known.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        encoded = encode(value)
        self._known[id(value)] = (value, encoded)
        return encoded

    def clear(self) -> None:
        """Forget and release every object."""
        self._known.clear()


def variables(encoded: Mapping[str, Encoded]) -> list[attach_pb2.Variable]:
    """Return the protobuf variables of encoded values by name."""
    return [
        attach_pb2.Variable(name=name, sha256=value.sha256, encoding=value.encoding) for name, value in encoded.items()
    ]


def parts(encoded: Mapping[str, Encoded], held: Set[str]) -> Iterator[attach_pb2.VariablePart]:
    """Yield the parts of every value that the sandbox doesn't hold yet, each value once."""
    sent: set[str] = set()
    for value in encoded.values():
        if value.sha256 in held or value.sha256 in sent:
            continue
        sent.add(value.sha256)
        size = len(value.data)
        view = memoryview(value.data)
        for start in range(0, max(size, 1), PART_BYTES):
            yield attach_pb2.VariablePart(
                sha256=value.sha256, data=bytes(view[start : start + PART_BYTES]), byte_size=size
            )


def _encoded(encoding: attach_pb2.VariableEncoding.ValueType, data: bytes) -> Encoded:
    digest = hashlib.sha256(bytes([int(encoding)]))
    digest.update(data)
    return Encoded(encoding, data, digest.hexdigest())


def loads(data: bytes) -> Any:
    """Return the value of JSON bytes.

    Raises:
        ValueError: they are not JSON.
    """
    return json.loads(data)
