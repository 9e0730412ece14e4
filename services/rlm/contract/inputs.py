"""The inputs of the Root and child Signatures, built once, immediately before the RLM runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from services.rlm.contract.dto import AttachmentInput, ChildFileInput, SessionContextInput, SkillCardInput

ROOT_INPUTS = ("request", "history", "session_context", "skill_cards", "attachments")
"""The inputs that every Root Signature has, in order."""

CHILD_INPUTS = ("task", "context", "inputs")
"""The inputs of the child Signature, in order."""


def root_inputs(
    *,
    request: str,
    history: Iterable[Mapping[str, str]],
    session_context: SessionContextInput,
    skill_cards: Sequence[SkillCardInput] = (),
    attachments: Sequence[AttachmentInput] = (),
    mount_root: str = "/workspace",
) -> dict[str, Any]:
    """Return the Root's inputs.

    Args:
        request: the Turn's text.
        history: `{"request", "answer"}` of every committed Turn, oldest first.
        session_context: where the conversation stands.
        skill_cards: the Skills that may be loaded.
        attachments: the Turn's staged files.
        mount_root: the folder of the sandbox that attachment paths are relative to.
    """
    # DSPy takes seconds to import, and the parts of a service that prepare a Turn are loaded at its start.
    from services.rlm.contract.capsules import AttachmentContextCapsule, HistoryCapsule

    return {
        "request": request,
        "history": HistoryCapsule(history),
        "session_context": session_context.to_json(),
        "skill_cards": [card.to_json() for card in skill_cards],
        "attachments": AttachmentContextCapsule(attachments, mount_root),
    }


def child_inputs(*, task: str, context: str, files: Sequence[ChildFileInput]) -> dict[str, Any]:
    """Return a child's inputs: its task, what it should know, and the manifest of its staged files."""
    return {"task": task, "context": context, "inputs": [file.to_json() for file in files]}
