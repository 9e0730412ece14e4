"""What an RLM is made from, and the fingerprint that tells whether a resident one may be used again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue, TypeAdapter

from services.rlm.contract.outputs import OutputContract
from services.rlm.tools import ToolDeclaration

if TYPE_CHECKING:
    import dspy

PROTOCOL_VERSION = 1
"""The version of the sandbox's protocol that the interpreter speaks."""


@dataclass(frozen=True)
class RlmSpec:
    """Everything that shapes an RLM; the request, its files and a Turn's own smaller limits do not.

    Attributes:
        signature: the task's Signature with its full instructions.
        tools: host tools beside DSPy's own.
        max_iters: steps of the loop.
        max_llm_calls: prompts of `llm_query*`.
        max_output_chars: characters of a step's output that the model sees.
        role: whose RLM it is.
        models: the models' configuration without secrets.
        policy: what else must not change under a resident RLM: the recursion policy, versions of selected Skills.
    """

    signature: type[dspy.Signature]
    tools: tuple[ToolDeclaration, ...]
    max_iters: int
    max_llm_calls: int
    max_output_chars: int
    role: Literal["root", "child"]
    models: Mapping[str, JsonValue]
    policy: Mapping[str, JsonValue] = field(default_factory=dict)

    def contract(self) -> OutputContract:
        """Return what the final outputs must be."""
        return OutputContract(self.signature, self.max_output_chars)

    def fingerprint(self) -> str:
        """Return the SHA-256, in hexadecimal, of the canonical JSON of the whole specification."""
        text = json.dumps(self._facts(), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def _facts(self) -> dict[str, JsonValue]:
        return {
            "dspy": importlib.metadata.version("dspy"),
            "protocol": PROTOCOL_VERSION,
            "role": self.role,
            "signature": _signature_facts(self.signature),
            "outputs": self.contract().describe(),
            "tools": [tool.describe() for tool in self.tools],
            "limits": {
                "max_iters": self.max_iters,
                "max_llm_calls": self.max_llm_calls,
                "max_output_chars": self.max_output_chars,
            },
            "models": dict(self.models),
            "policy": dict(self.policy),
        }


def _signature_facts(signature: type[dspy.Signature]) -> dict[str, JsonValue]:
    fields: list[JsonValue] = []
    for kind, group in (("input", signature.input_fields), ("output", signature.output_fields)):
        for name, info in group.items():
            extra = info.json_schema_extra or {}
            fields.append([kind, name, _annotation(info.annotation), str(extra.get("desc", ""))])
    return {"instructions": signature.instructions, "fields": fields}


def _annotation(annotation: Any) -> str:
    # A class such as a capsule has no schema of its own; its full name says what it is.
    if isinstance(annotation, type):
        return f"{annotation.__module__}.{annotation.__qualname__}"
    try:
        return json.dumps(TypeAdapter(annotation).json_schema(), sort_keys=True)
    except Exception:  # noqa: BLE001 - pydantic has many ways to say that a type has no schema
        return str(annotation)
