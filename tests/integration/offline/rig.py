"""Runs a Root on the offline model the way the session does, with children in the same process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dspy

from tests.fakes.offline_repl import Attachment, OfflineRepl


class RootSignature(dspy.Signature):
    """Answer the request from what is attached. At most 4 children may be started in a Turn."""

    request: str = dspy.InputField()
    answer: str = dspy.OutputField()


class ChildSignature(dspy.Signature):
    """Do the task from the staged inputs."""

    task: str = dspy.InputField()
    context: str = dspy.InputField()
    inputs: list[dict[str, Any]] = dspy.InputField()
    answer: str = dspy.OutputField()
    evidence: list[str] = dspy.OutputField()
    gaps: list[str] = dspy.OutputField()
    result_files: list[str] = dspy.OutputField()


@dataclass
class Turn:
    """One Turn: the answer and what was run for it."""

    answer: str = ""
    root: OfflineRepl | None = None
    children: list[OfflineRepl] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    prediction: Any = None


class Rig:
    """Asks the offline model at ``base_url``; ``scratch`` holds the children's staged copies."""

    def __init__(self, base_url: str, scratch: Path) -> None:
        self.lm = dspy.LM(
            "openai/fleet-offline", api_base=base_url, api_key="none", cache=False, num_retries=0, timeout=30
        )
        self.adapter = dspy.ChatAdapter(use_json_adapter_fallback=False)
        self.scratch = scratch

    def ask(
        self,
        request: str,
        attachments: Sequence[Attachment] = (),
        *,
        history: Sequence[Mapping[str, str]] = (),
        recursion: bool = True,
        broken: Mapping[str, Exception] | None = None,
        child_status: str = "completed",
        max_iters: int = 12,
    ) -> Turn:
        """Run one Turn."""
        turn = Turn()
        by_path = {item.path: item for item in attachments}

        def rlm_query_batched(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
            """Run independent children."""
            turn.tasks += calls
            return [self._child(turn, by_path, call, child_status) for call in calls]

        turn.root = OfflineRepl({}, broken)
        signature = RootSignature.append("history", dspy.InputField(), list).append(
            "attachments", dspy.InputField(), Any
        )
        rlm = dspy.RLM(
            signature,
            max_iters=max_iters,
            max_llm_calls=32,
            max_output_chars=6000,
            tools=[rlm_query_batched] if recursion else [],
        )
        with dspy.context(lm=self.lm, adapter=self.adapter, disable_history=True, trace=None):
            inputs = {"request": request, "history": list(history), "attachments": list(attachments)}
            turn.prediction = rlm(turn.root, **inputs)
        turn.answer = turn.prediction.answer
        return turn

    def _child(
        self, turn: Turn, by_path: Mapping[str, Attachment], call: Mapping[str, Any], status: str
    ) -> dict[str, Any]:
        if status != "completed":
            return {
                "status": status,
                "answer": "",
                "evidence": [],
                "gaps": [],
                "error": {"category": "capacity", "message": "none"},
            }
        inputs = []
        for path in call["inputs"]:
            copy = self.scratch / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(by_path[path].bytes())
            inputs.append(
                {
                    "path": path,
                    "local_path": str(copy),
                    "byte_size": by_path[path].byte_size,
                    "sha256": by_path[path].sha256,
                }
            )
        repl = OfflineRepl({})
        turn.children.append(repl)
        rlm = dspy.RLM(ChildSignature, max_iters=8, max_llm_calls=12, max_output_chars=4000)
        with dspy.context(lm=self.lm, adapter=self.adapter, disable_history=True, trace=None):
            out = rlm(repl, task=call["task"], context=call.get("context", ""), inputs=inputs)
        assert all(len(item) <= 512 for item in out.evidence)
        assert all(len(item) <= 512 for item in out.gaps)
        return {
            "status": status,
            "answer": out.answer,
            "evidence": out.evidence,
            "gaps": out.gaps,
            "result_files": [],
            "error": None,
        }
