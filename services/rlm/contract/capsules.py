"""Inputs that live in the sandbox: the model sees a short preview, the value is rebuilt there once a Turn.

Importing this module imports DSPy; callers that must start quickly build inputs through `services.rlm.contract.inputs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import dspy
from dspy.primitives.sandbox_serializable import SandboxSerializable
from pydantic import model_serializer

from services.rlm.contract.dto import AttachmentInput, preview

PREVIEW_CHARS = 2_000
"""Characters of a capsule's preview, whatever it holds."""

_SETUP = "import fleet_capsules"
_ROWS = 12
_NAME_CHARS = 80
_TEXT_CHARS = 200
_RECENT = 3


class AttachmentContextCapsule(SandboxSerializable):  # type: ignore[misc]
    """The manifest of a Turn's attachments; their bytes are staged as files below `mount_root`.

    In the sandbox it becomes the sequence `attachments` of objects that read the staged files.
    """

    def __init__(self, entries: Iterable[AttachmentInput], mount_root: str) -> None:
        """Make the capsule.

        Args:
            entries: the attachments in order.
            mount_root: the folder of the sandbox that attachment paths are relative to.
        """
        self.entries = tuple(entries)
        self.mount_root = mount_root

    def sandbox_setup(self) -> str:
        """Return the import that the assignment needs; DSPy shows this line to the model."""
        return _SETUP

    def to_sandbox(self) -> bytes:
        """Return the manifest as JSON."""
        manifest = {"mount_root": self.mount_root, "entries": [entry.to_json() for entry in self.entries]}
        return _json(manifest)

    def sandbox_assignment(self, var_name: str, data_expr: str) -> str:
        """Return the statement that rebuilds the sequence."""
        return f"{var_name} = fleet_capsules.attachments({data_expr})"

    def rlm_preview(self, max_chars: int = PREVIEW_CHARS) -> str:
        """Return a short table of the attachments; names are quoted, since they are a user's text."""
        if not self.entries:
            return "No attachments."
        lines = [f"{len(self.entries)} staged below {self.mount_root}:"]
        lines += [_row(index, entry) for index, entry in enumerate(self.entries[:_ROWS])]
        left = len(self.entries) - _ROWS
        if left > 0:
            lines.append(f"… and {left} more")
        return preview("\n".join(lines), max_chars)

    def __str__(self) -> str:
        return self.rlm_preview()


class HistoryCapsule(dspy.History, SandboxSerializable):  # type: ignore[misc]
    """Every committed Turn of the Session as `{"request", "answer"}`, oldest first.

    It is a `dspy.History`, so that it fits a field of that type. In the sandbox it becomes the read-only sequence
    `history`, whose items are also under `.messages`.
    """

    def __init__(self, records: Iterable[Mapping[str, str]] = (), **data: Any) -> None:
        """Make the capsule.

        Args:
            records: mappings with `request` and `answer`; other keys are left out.
            data: the fields of `dspy.History`, for copies that DSPy or pydantic makes.
        """
        if "messages" not in data:
            data["messages"] = [{"request": record["request"], "answer": record["answer"]} for record in records]
        super().__init__(**data)

    def sandbox_setup(self) -> str:
        """Return the import that the assignment needs; DSPy shows this line to the model."""
        return _SETUP

    def to_sandbox(self) -> bytes:
        """Return the records as a JSON list."""
        return _json(self.messages)

    def sandbox_assignment(self, var_name: str, data_expr: str) -> str:
        """Return the statement that rebuilds the sequence."""
        return f"{var_name} = fleet_capsules.history({data_expr})"

    def rlm_preview(self, max_chars: int = PREVIEW_CHARS) -> str:
        """Return how many Turns there are and the beginnings of the latest ones."""
        if not self.messages:
            return "No earlier Turns: this is the first."
        total = len(self.messages)
        lines = [f"{total} earlier Turn{'s' if total > 1 else ''}; the latest:"]
        for index in range(max(0, total - _RECENT), total):
            record = {key: preview(str(value), _TEXT_CHARS) for key, value in self.messages[index].items()}
            lines.append(f"[{index}] {json.dumps(record, ensure_ascii=False)}")
        return preview("\n".join(lines), max_chars)

    @model_serializer
    def _serialize(self) -> str:
        """Traces and prompts that serialize inputs get the preview, not the whole conversation."""
        return self.rlm_preview()

    def __str__(self) -> str:
        return self.rlm_preview()


def _row(index: int, entry: AttachmentInput) -> str:
    name = json.dumps(preview(entry.filename, _NAME_CHARS), ensure_ascii=False)
    kind = json.dumps(preview(entry.content_type, 60), ensure_ascii=False)
    return f"[{index}] {name} {kind} {entry.byte_size:,} bytes"


def _json(value: Any) -> bytes:
    # A lone surrogate has no UTF-8 form: it travels as its JSON escape.
    text = json.dumps(value, ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()
