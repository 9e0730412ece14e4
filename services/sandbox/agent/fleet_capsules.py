"""Lazy views of a Turn's inputs for model-written code.

`attachments` are files that are read, and checked, when they are first used; `history` is the conversation so far.
Both are read-only sequences and cost nothing until something is taken from them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

Bytes = bytes


class AttachmentError(OSError):
    """An attachment's file is missing or has other bytes than were attached."""


class Attachment:
    """A file that the user attached.

    Attributes:
        id: Its id.
        filename: Its name.
        content_type: Its media type.
        byte_size: Its size in bytes.
        sha256: SHA-256 of its bytes, hexadecimal.
        path: Its workspace path, as `rlm_query` takes it in `inputs`.
        local_path: Where the file lies in this sandbox.
    """

    def __init__(self, entry: dict[str, Any], mount_root: str) -> None:
        self.id: str = entry["id"]
        self.filename: str = entry["filename"]
        self.content_type: str = entry.get("content_type", "")
        self.byte_size: int = entry["byte_size"]
        self.sha256: str = entry["sha256"]
        self.path: str = entry["path"]
        self.local_path: str = entry.get("local_path") or f"{mount_root}/{self.path}"
        self._checked = False

    def __repr__(self) -> str:
        return f"<Attachment {self.filename!r} {self.content_type} {self.byte_size} bytes, id={self.id!r}>"

    def bytes(self) -> Bytes:
        """Return the content.

        Raises:
            AttachmentError: The file is missing or has been changed.
        """
        try:
            descriptor = os.open(self.local_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise AttachmentError(f"attachment {self.filename!r} can't be read: {error.strerror}") from None
        with open(descriptor, "rb") as file:
            data = file.read()
        if not self._checked:
            self._check(data)
        return data

    def _check(self, data: Bytes) -> None:
        if len(data) != self.byte_size:
            raise AttachmentError(
                f"attachment {self.filename!r} has {len(data)} bytes on disk; {self.byte_size} were attached"
            )
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise AttachmentError(f"attachment {self.filename!r} has other content than was attached")
        self._checked = True

    def text(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        """Return the content as text."""
        return self.bytes().decode(encoding, errors)

    def lines(self, encoding: str = "utf-8", errors: str = "replace") -> list[str]:
        """Return the content as lines without their ends."""
        return self.text(encoding, errors).splitlines()


class Attachments(Sequence[Attachment]):
    """The attachments of this Turn; by index, or by filename or id."""

    def __init__(self, items: Sequence[Attachment]) -> None:
        self._items = tuple(items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            for item in self._items:
                if key in (item.filename, item.id, item.path):
                    return item
            raise KeyError(f"no attachment {key!r}; there are {[item.filename for item in self._items]}")
        return self._items[key]

    def __repr__(self) -> str:
        return f"<{len(self)} attachments: {', '.join(repr(item) for item in self._items)}>"


class History(Sequence[dict[str, str]]):
    """The earlier Turns of this Session, oldest first, each `{"request": …, "answer": …}`."""

    def __init__(self, turns: Sequence[dict[str, str]]) -> None:
        self._turns = tuple(turns)

    def __len__(self) -> int:
        return len(self._turns)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [dict(turn) for turn in self._turns[key]]
        return dict(self._turns[key])

    def __iter__(self) -> Iterator[dict[str, str]]:
        return (dict(turn) for turn in self._turns)

    @property
    def messages(self) -> list[dict[str, str]]:
        """All Turns, as a list of copies."""
        return list(self)

    def __repr__(self) -> str:
        return f"<History of {len(self)} turns>"


def attachments(manifest: str | bytes) -> Attachments:
    """Build the attachments.

    Args:
        manifest: JSON list of objects with id, filename, content_type, byte_size, sha256, path and, where it isn't
            the path below the mount root, local_path; or an object with that list as `entries` and the `mount_root`.
    """
    document = json.loads(manifest)
    if not isinstance(document, dict):
        document = {"entries": document}
    root = document.get("mount_root") or os.environ.get("FLEET_MOUNT_ROOT", "/workspace")
    return Attachments([Attachment(entry, root) for entry in document["entries"]])


def history(manifest: str | bytes) -> History:
    """Build the history.

    Args:
        manifest: JSON list of `{"request", "answer"}`.
    """
    return History(json.loads(manifest))
