"""The output contract: what a final answer must be, at SUBMIT and after extraction alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from services.common.text import clean
from services.rlm.interpreter.values import ValueNotJsonError, to_json

if TYPE_CHECKING:
    import dspy

SIZE_FACTOR = 20
"""Final outputs may have `max_output_chars` times this many characters of JSON."""


class OutputError(ValueError):
    """The outputs break the contract; the message tells the model what to mend."""


class OutputContract:
    """Checks and types the outputs of one signature."""

    def __init__(self, signature: type[dspy.Signature], max_output_chars: int) -> None:
        """Read the signature's outputs.

        Args:
            signature: the task's signature.
            max_output_chars: what the model sees of one step; the outputs may be `SIZE_FACTOR` times as long.
        """
        self._annotations: dict[str, Any] = {name: field.annotation for name, field in signature.output_fields.items()}
        self._max_chars = max_output_chars * SIZE_FACTOR

    @property
    def names(self) -> tuple[str, ...]:
        """The outputs in order."""
        return tuple(self._annotations)

    def describe(self) -> dict[str, JsonValue]:
        """Return the contract as JSON, for the fingerprint."""
        fields: dict[str, JsonValue] = {name: _schema(each) for name, each in self._annotations.items()}
        return {"fields": fields, "max_chars": self._max_chars}

    def check(self, outputs: Mapping[str, Any]) -> dict[str, JsonValue]:
        """Return the typed outputs as JSON values.

        Raises:
            OutputError: an output is missing, of another type, not finite or blank, or all are too long.
        """
        missing = [name for name in self._annotations if name not in outputs]
        if missing:
            raise OutputError(f"Missing outputs: {', '.join(missing)}. Call SUBMIT({', '.join(self.names)}).")
        typed = {name: self._typed(name, outputs[name]) for name in self._annotations}
        answer = typed.get("answer")
        if "answer" in typed and (answer is None or (isinstance(answer, str) and not answer.strip())):
            raise OutputError("answer is blank. SUBMIT the answer's text.")
        size = len(to_json(typed).decode("utf-8", "replace"))
        if size > self._max_chars:
            raise OutputError(f"The outputs have {size:,} characters; at most {self._max_chars:,} are allowed.")
        return typed

    def _typed(self, name: str, value: Any) -> JsonValue:
        from dspy.adapters.utils import parse_value

        annotation = self._annotations[name]
        if annotation is str and value is None:
            raise OutputError(f"{name}: expected str, got None.")
        try:
            parsed = parse_value(value, annotation)
            # JSON mode would turn NaN and infinity into null, so they are looked for before.
            if not all(math.isfinite(leaf) for leaf in _floats(TypeAdapter(annotation).dump_python(parsed))):
                raise ValueError("it holds NaN or infinity, which JSON can't carry")
            return _as_json(parsed, annotation)
        except (ValueError, ValidationError, ValueNotJsonError) as error:
            raise OutputError(
                f"{name}: expected {_type_name(annotation)}, got {type(value).__name__}: {error}"
            ) from error


def _as_json(value: Any, annotation: Any) -> JsonValue:
    if isinstance(value, str):
        return clean(value)
    dumped: JsonValue = TypeAdapter(annotation).dump_python(value, mode="json")
    return dumped


def _floats(value: Any) -> Iterator[float]:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, float):
            yield each
        elif isinstance(each, Mapping):
            pending.extend(each.values())
        elif isinstance(each, list | tuple | set | frozenset):
            pending.extend(each)


def _type_name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _schema(annotation: Any) -> JsonValue:
    schema: JsonValue = TypeAdapter(annotation).json_schema()
    return schema
