"""Input values: strict, frozen, bounded, JSON-compatible."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from services.rlm.contract.dto import (
    AttachmentInput,
    MessagePreview,
    SessionContextInput,
    SkillCardInput,
    WorkspaceInput,
    preview,
)

FILE = {
    "id": "a", "filename": "f", "content_type": "", "byte_size": 1, "sha256": "0" * 64, "path": "attachments/a/f",
}  # fmt: skip


def test_values_become_json() -> None:
    context = SessionContextInput(
        session_id="s1",
        checkpoint_version=2,
        message_count=4,
        recent=(MessagePreview(role="user", text="hi"),),
        workspace=WorkspaceInput(available=True, root="/workspace", file_count=3),
    )
    assert json.loads(json.dumps(context.to_json())) == {
        "session_id": "s1", "checkpoint_version": 2, "message_count": 4,
        "recent": [{"role": "user", "text": "hi"}],
        "workspace": {"available": True, "root": "/workspace", "file_count": 3},
        "memory_digest": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (MessagePreview, {"role": "user", "text": "x" * 321}),
        (MessagePreview, {"role": "system", "text": "x"}),
        (MessagePreview, {"role": "user", "text": "x", "extra": 1}),
        (SkillCardInput, {"id": "a", "name": "n" * 65, "description": "", "version": "1"}),
        (SkillCardInput, {"id": "a", "name": "n", "description": "", "version": "1", "affordances": ("a",) * 9}),
        (AttachmentInput, {**FILE, "filename": ""}),
        (AttachmentInput, {**FILE, "byte_size": "1"}),
        (AttachmentInput, {**FILE, "sha256": "x"}),
    ],
)
def test_rules_are_kept(kind: type, values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        kind(**values)


def test_values_do_not_change() -> None:
    message = MessagePreview(role="user", text="x")
    with pytest.raises(ValidationError):
        message.text = "y"  # type: ignore[misc]


def test_previews_are_cut_to_their_length() -> None:
    assert preview("x" * 320) == "x" * 320
    assert preview("x" * 321) == "x" * 319 + "…"
