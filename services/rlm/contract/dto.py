"""What a Turn or a child hands to its RLM besides text: strict, frozen, bounded values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

MAX_ATTACHMENTS = 32
"""Attachments of one Turn."""

MAX_SKILL_CARDS = 32
"""Skill cards that one Turn shows."""

MAX_PREVIEWS = 6
"""Recent messages that the session context shows."""

PREVIEW_CHARS = 320
"""Characters of one recent message's preview."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in lower-case hexadecimal."""

ByteSize = Annotated[int, Field(ge=0)]
"""A size in bytes."""


class Dto(BaseModel):
    """A value that crosses into the RLM: no coercion, no unknown fields, no changes."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    def to_json(self) -> dict[str, JsonValue]:
        """Return the value as JSON-compatible Python values."""
        return self.model_dump(mode="json")


class MessagePreview(Dto):
    """The beginning of one earlier message of the conversation.

    Attributes:
        role: who said it.
        text: its first characters.
    """

    role: Literal["user", "assistant"]
    text: Annotated[str, Field(max_length=PREVIEW_CHARS)]


class WorkspaceInput(Dto):
    """The Workspace's files in short.

    Attributes:
        available: whether the sandbox has them.
        root: the folder in the sandbox that holds them; empty when unavailable.
        file_count: how many there are.
    """

    available: bool
    root: Annotated[str, Field(max_length=512)]
    file_count: ByteSize


class SessionContextInput(Dto):
    """Where the conversation stands.

    Attributes:
        session_id: the Session's id.
        checkpoint_version: committed Turns so far.
        message_count: messages of the committed conversation.
        recent: previews of the latest messages, oldest first.
        workspace: the Workspace's files in short.
        memory_digest: what is remembered, in short.
    """

    session_id: Annotated[str, Field(min_length=1, max_length=64)]
    checkpoint_version: ByteSize
    message_count: ByteSize
    recent: Annotated[tuple[MessagePreview, ...], Field(max_length=MAX_PREVIEWS)] = ()
    workspace: WorkspaceInput = WorkspaceInput(available=False, root="", file_count=0)
    memory_digest: Annotated[str, Field(max_length=4_096)] = ""


class SkillCardInput(Dto):
    """A Skill as the Root sees it before it is loaded.

    Attributes:
        id: what `load_skill` takes.
        name: its title.
        description: when to use it.
        version: which version it is.
        affordances: what it is good for, in single words.
        resources_available: whether it has files to read after loading.
    """

    id: Annotated[str, Field(min_length=1, max_length=64)]
    name: Annotated[str, Field(min_length=1, max_length=64)]
    description: Annotated[str, Field(max_length=512)]
    version: Annotated[str, Field(max_length=32)]
    affordances: Annotated[tuple[Annotated[str, Field(max_length=32)], ...], Field(max_length=8)] = ()
    resources_available: bool = False


class AttachmentInput(Dto):
    """One file of the Turn, staged in the sandbox.

    Attributes:
        id: the attachment's id.
        filename: its name as uploaded.
        content_type: its media type.
        byte_size: its size in bytes.
        sha256: its digest.
        path: where it is below the mount root, such as `attachments/<id>/<filename>`.
    """

    id: Annotated[str, Field(min_length=1, max_length=64)]
    filename: Annotated[str, Field(min_length=1, max_length=255)]
    content_type: Annotated[str, Field(max_length=255)]
    byte_size: ByteSize
    sha256: Sha256
    path: Annotated[str, Field(min_length=1, max_length=512)]


class ChildFileInput(Dto):
    """One file that is staged for a child.

    Attributes:
        path: the relative path that the Root asked for.
        local_path: where it is in the child's sandbox.
        byte_size: its size in bytes.
        sha256: its digest.
    """

    path: Annotated[str, Field(min_length=1, max_length=512)]
    local_path: Annotated[str, Field(min_length=1, max_length=1_024)]
    byte_size: ByteSize
    sha256: Sha256


def preview(text: str, limit: int = PREVIEW_CHARS) -> str:
    """Return `text` cut to at most `limit` characters, with an ellipsis when something is left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
