"""What the scripted model writes: the same programs for every peer, found by a word in the question."""

from __future__ import annotations

from tests.fakes.scripted_llm import Reply, Request, action

HELLO = "BENCH-HELLO"
WARM = "BENCH-WARM"
READ_ATTACHMENT = "BENCH-READ-ATTACHMENT"
READ_VARIABLE = "BENCH-READ-VARIABLE"
SPAWN = "BENCH-SPAWN"
EVENTS = "BENCH-EVENTS"
CHILD = "BENCH-ONE-CHILD"
"""Begins a child's task."""

CHILDREN = 4
TOOL_CALLS = 240
"""Tool calls of the Turn with many events, each with at least two events."""

ANSWERS = {HELLO: "hello", WARM: "fine fine fine fine", SPAWN: f"{CHILDREN} children", EVENTS: f"{TOOL_CALLS} calls"}
"""The right answer by question; a peer that says something else is not measured."""

_SUB = "BENCH-SUB"
_STEP = "=== Step"
"""Where DSPy begins to tell of an earlier step; the programs of one step have none."""

_FAILED = Reply("the program did not end in its one step", status=400)
_FIRST, _SECOND = "the first part is known", "the second part is known"
_WARM_STEPS = (
    f"parts = [llm_query('{_SUB} 1')]\nparts.append(llm_query('{_SUB} 2'))\nprint('{_FIRST}', len(parts))",
    f"parts += llm_query_batched(['{_SUB} 3', '{_SUB} 4'])\nprint('{_SECOND}', len(parts))",
    "SUBMIT(' '.join(parts))",
)
_PROGRAMS = {
    HELLO: "SUBMIT('hello')",
    READ_ATTACHMENT: "text = attachments[0].text()\nSUBMIT(str(text.count('needle')))",
    READ_VARIABLE: "SUBMIT(str(document.count('needle')))",
    EVENTS: f"for _ in range({TOOL_CALLS}):\n    read_session_history(limit=1)\nSUBMIT('{TOOL_CALLS} calls')",
    SPAWN: (
        f"tasks = [{{'task': '{CHILD} ' + str(n)}} for n in range({CHILDREN})]\n"
        "outcomes = rlm_query_batched(tasks)\n"
        "failed = [item for item in outcomes if item['status'] != 'completed']\n"
        "SUBMIT(str(failed) if failed else str(len(outcomes)) + ' children')"
    ),
}
_CHILD_PROGRAM = "SUBMIT(answer='done', evidence=[], gaps=[], result_files=[])"


def reply_to(request: Request) -> Reply | str:
    """The next completion, decided by the prompt alone, so that Turns may run side by side."""
    last = str(request.body["messages"][-1]["content"])
    if last.startswith(_SUB):
        return "fine"
    prompt = request.prompt
    if CHILD in prompt:
        return action(_CHILD_PROGRAM)
    for question, program in _PROGRAMS.items():
        if question in prompt:
            return _FAILED if _STEP in prompt else action(program)
    if WARM not in prompt:
        return Reply("no program for this prompt", status=400)
    return action(_WARM_STEPS[(_FIRST in prompt) + (_SECOND in prompt)])
