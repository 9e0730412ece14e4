"""The native Signatures of the Root and of a child.

DSPy is imported when a Signature is made, not with this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from config.policy import Policy
from services.rlm.instructions import compose_child, compose_root

if TYPE_CHECKING:
    import dspy

ROOT_FIELDS = {
    "request": "What the user asks in this Turn",
    "history": 'Every earlier Turn, oldest first: a read-only sequence of {"request", "answer"}; also as `.messages`',
    "session_context": "Where the conversation stands; its texts are previews",
    "skill_cards": "Skills that may be loaded when they fit the request",
    "attachments": (
        "The files of this Turn: a sequence of items with .id, .filename, .content_type, .byte_size, .sha256, .path, "
        ".local_path, .text(), .lines() and .bytes()"
    ),
}
"""The Root's inputs and what the model is told of each."""

CHILD_FIELDS = {
    "task": "What to find out",
    "context": "What you should know for it; may be empty",
    "inputs": 'The staged files: a list of {"path", "local_path", "byte_size", "sha256"}; read `local_path`',
}
"""A child's inputs and what the model is told of each."""


def root_signature(policy: Policy, extra_instructions: Sequence[str] = ()) -> type[dspy.Signature]:
    """Return the Root's default Signature: five inputs, and `answer: str`.

    Args:
        policy: gives the limits that the instructions state.
        extra_instructions: texts of the selected Skills, appended in order.
    """
    import dspy

    kinds: dict[str, Any] = {
        "request": str,
        "history": dspy.History,
        "session_context": dict[str, Any],
        "skill_cards": list[dict[str, Any]],
        "attachments": list[dict[str, Any]],
    }
    fields = {name: (kinds[name], dspy.InputField(desc=desc)) for name, desc in ROOT_FIELDS.items()}
    fields["answer"] = (str, dspy.OutputField(desc="The answer for the user; not blank"))
    return _named("RootSignature", dspy.Signature(fields, compose_root(policy, extra_instructions)))


def child_signature(policy: Policy) -> type[dspy.Signature]:
    """Return a child's Signature: `task`, `context`, `inputs`, and what it reports."""
    import dspy

    kinds: dict[str, Any] = {"task": str, "context": str, "inputs": list[dict[str, Any]]}
    fields = {name: (kinds[name], dspy.InputField(desc=desc)) for name, desc in CHILD_FIELDS.items()}
    fields["answer"] = (str, dspy.OutputField(desc="The finding, complete in itself; not blank"))
    fields["evidence"] = (list[str], dspy.OutputField(desc="Passages and figures with their file and place"))
    fields["gaps"] = (list[str], dspy.OutputField(desc="What could not be found out"))
    fields["result_files"] = (list[str], dspy.OutputField(desc="Paths of files written for the parent"))
    return _named("ChildSignature", dspy.Signature(fields, compose_child(policy)))


def _named(name: str, signature: type[dspy.Signature]) -> type[dspy.Signature]:
    signature.__name__ = name
    return signature
