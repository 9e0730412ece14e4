"""The capsules that model-written code gets."""

import hashlib
import json
from pathlib import Path

import pytest

from services.sandbox.agent import fleet_capsules


def _entry(path: Path, data: bytes, **other: object) -> dict[str, object]:
    return {
        "id": "a1",
        "filename": "notes.txt",
        "content_type": "text/plain",
        "byte_size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "path": "attachments/a1/notes.txt",
        **other,
    }


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "attachments" / "a1" / "notes.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes("één\ntwee".encode())
    return path


def test_attachments(notes: Path, tmp_path: Path) -> None:
    manifest = {"mount_root": str(tmp_path), "entries": [_entry(notes, notes.read_bytes())]}
    attachments = fleet_capsules.attachments(json.dumps(manifest))
    (item,) = attachments
    assert attachments["notes.txt"] is attachments["a1"] is attachments[-1] is item
    assert (item.local_path, item.path) == (str(notes), "attachments/a1/notes.txt")
    assert item.text() == "één\ntwee"
    assert item.lines() == ["één", "twee"]
    assert "notes.txt" in repr(attachments)
    with pytest.raises(KeyError, match=r"notes\.txt"):
        attachments["other"]


def test_a_list_is_a_manifest_too(notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_MOUNT_ROOT", str(tmp_path))
    assert fleet_capsules.attachments(json.dumps([_entry(notes, notes.read_bytes())]))[0].bytes() == notes.read_bytes()


def test_nothing_is_read_before_it_is_used() -> None:
    fleet_capsules.attachments(json.dumps([_entry(Path("x"), b"", local_path="/nonexistent")]))


@pytest.mark.parametrize("data", [b"shorter", b"\xff" * 9])
def test_changed_files_are_refused(notes: Path, data: bytes) -> None:
    entry = _entry(notes, "één\ntwee".encode(), local_path=str(notes))
    notes.write_bytes(data)
    with pytest.raises(fleet_capsules.AttachmentError, match=r"notes\.txt"):
        fleet_capsules.attachments(json.dumps([entry]))[0].bytes()


def test_missing_files_and_links_are_refused(notes: Path) -> None:
    link = notes.with_name("link")
    link.symlink_to(notes)
    for path in (link, notes.with_name("missing")):
        entry = _entry(notes, notes.read_bytes(), local_path=str(path))
        with pytest.raises(fleet_capsules.AttachmentError):
            fleet_capsules.attachments(json.dumps([entry]))[0].text()


def test_history_is_read_only() -> None:
    turns = [{"request": "a", "answer": "b"}, {"request": "c", "answer": "d"}]
    history = fleet_capsules.history(json.dumps(turns))
    history[0]["answer"] = "changed"
    history.messages[1]["answer"] = "changed"
    for turn in history:
        turn["answer"] = "changed"
    assert history.messages == history[:] == turns
    assert (len(history), history[-1]) == (2, turns[1])
    with pytest.raises(TypeError):
        history[0] = {}  # type: ignore[index]
