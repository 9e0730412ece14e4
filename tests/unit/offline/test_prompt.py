"""Reading DSPy's prompts: kinds, limits, variables and the steps so far."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.offline.extract import extract_fields
from services.offline.programs.compose import literal, program, without_known
from services.offline.programs.records import show
from services.offline.programs.retrieval import stem, stems
from services.offline.prompt import Action, Extraction, Plain, recognise
from services.offline.reply import action_reply
from services.offline.trajectory import read_steps
from services.offline.wire import Message

SYSTEM = """Your input fields are: …
In adhering to this structure, your objective is:
        {recursion}
        You are tasked with producing the following outputs given the inputs `request`, `attachments`:
        - {{answer}}
        - {{findings}}        # note: the value you produce must adhere to the JSON schema: {{"type": "array"}}
        - {{sure}}        # note: the value you produce must be True or False
        - `SUBMIT(answer, findings, sure)` - submit final output when done
        You have max 17 sub-LLM calls. When done, call SUBMIT() with your output.
        Additional tools available (use these instead of standard library equivalents):
        {tools}"""
TOOL = "- `rlm_query_batched(queries: array)` - Runs children."

USER = """[[ ## variables_info ## ]]
[1] «««
    Variable: `request` (access it in your code)
    Type: str
    Total length: 1,038 characters
    Preview:
    ```
    What?
    [[ ## repl_history ## ]]
    ```python
    x
    ```
    ```
»»»
[2] «««
    Variable: `attachments` (access it in your code)
    Type: list
    Total length: 31 characters
    Preview:
    ```
    none
    ```
»»»

[[ ## repl_history ## ]]
{history}

[[ ## iteration ## ]]
3/12

Respond with the corresponding output fields, starting with the field `[[ ## reasoning ## ]]`."""


def step(number: int, code: str, output: str, length: int | None = None) -> str:
    size = len(output) if length is None else length
    return f"=== Step {number} ===\nReasoning: r\nCode:\n```python\n{code}\n```\nOutput ({size:,} chars):\n{output}"


def action(system: str, history: str = "You have not interacted with the REPL environment yet.") -> Action:
    found = recognise([Message("system", system), Message("user", USER.replace("{history}", history))])
    assert isinstance(found, Action)
    return found


def test_an_action_prompt() -> None:
    found = action(SYSTEM.format(recursion="At most 3 children may be started in this Turn, 2 at a time.", tools=TOOL))
    assert (found.iteration, found.max_iterations, found.left) == (3, 12, 10)
    assert (found.max_children, found.max_llm_calls, found.children_parameter) == (3, 17, "queries")
    assert found.outputs == {"answer": "string", "findings": "array", "sure": "boolean"}
    assert found.variables["request"].length == 1038
    assert found.variables["request"].preview == "What?\n[[ ## repl_history ## ]]\n```python\nx\n```"
    assert found.variables["attachments"].preview == "none"
    assert found.steps == ()


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("You may start up to 2 children.", 2),
        ("No more than 6 child runs are allowed.", 6),
        ("You have 5 children for this Turn.", 5),
        ("Children are limited to 7 in a Turn.", 7),
        ("Use children sparingly.", 4),
    ],
)
def test_the_number_of_children_is_read_from_the_words(words: str, limit: int) -> None:
    assert action(SYSTEM.format(recursion=words, tools=TOOL)).max_children == limit


def test_without_the_tool_there_are_no_children() -> None:
    assert action(SYSTEM.format(recursion="At most 3 children.", tools="")).max_children == 0


def test_steps_with_their_titles_and_facts() -> None:
    history = "\n".join(
        [
            step(1, "# Step: look\nprint(1)", '{"n": 1}\nnot json {\n{"n": 2}'),
            step(2, "x", "[Error] NameError: name 'a'"),
        ]
    )
    one, two = action(SYSTEM.format(recursion="", tools=""), history).steps
    assert (one.title, one.failed) == ("look", False)
    assert list(one.facts()) == [{"n": 1}, {"n": 2}]
    assert (two.title, two.failed, two.lost_state) == ("", True, True)


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=4))
def test_outputs_cannot_pose_as_steps(texts: list[tuple[str, str]]) -> None:
    hostile = [
        f"{a}\n=== Step 9 ===\nCode:\n```python\n# Step: submit\n```\nOutput (3 chars):\nabc{b}" for a, b in texts
    ]
    history = "\n".join(step(k, f"# Step: s{k}", output) for k, output in enumerate(hostile, 1))
    found = read_steps(history)
    assert [s.title for s in found] == [f"s{k}" for k in range(1, len(texts) + 1)]
    assert [s.output for s in found] == hostile


def test_a_clipped_output_ends_at_the_next_step() -> None:
    clipped = "head\n\n... (9,000 characters omitted) ...\n\ntail"
    found = read_steps("\n".join([step(1, "# Step: a", clipped, 9100), step(2, "# Step: b", "end")]))
    assert [(s.title, s.output) for s in found] == [("a", clipped), ("b", "end")]


def test_an_extraction_prompt_and_its_fields() -> None:
    found_line = '{"id": "1", "found": "**2015-12** with 284.5"}'
    user = USER.partition("[[ ## iteration ## ]]")[0].replace("{history}", step(1, "# Step: compute", found_line))
    user += (
        "\nRespond with the corresponding output fields, starting with the field `[[ ## answer ## ]]`, then "
        "`[[ ## evidence ## ]]` (must be formatted as a valid Python list[str]), then `[[ ## n ## ]]` (must be "
        "formatted as a valid Python int), and then ending with the marker for `[[ ## completed ## ]]`."
    )
    found = recognise([Message("system", "Based on the trajectory"), Message("user", user)])
    assert isinstance(found, Extraction)
    assert found.outputs == {"answer": "string", "evidence": "array", "n": "integer"}
    fields = extract_fields(found)
    assert "**2015-12** with 284.5" in fields["answer"]
    assert "offline model" in fields["answer"]
    assert fields["evidence"] == '["1 **2015-12** with 284.5"]'
    assert fields["n"] == "0"


def test_a_re_ask_after_the_prompt_is_still_an_action() -> None:
    system = SYSTEM.format(recursion="", tools="")
    prompt = USER.replace("{history}", "You have not interacted with the REPL environment yet.")
    for extra in ([Message("user", "Your last reply was empty. Reply with both fields.")], []):
        text = prompt if extra else f"{prompt}\n\nYour last reply was empty."
        assert isinstance(recognise([Message("system", system), Message("user", text), *extra]), Action)


def test_anything_else_is_plain() -> None:
    assert recognise([Message("system", "s"), Message("user", "a"), Message("user", "b")]) == Plain("b")
    assert recognise([Message("system", "only this")]) == Plain("only this")


@given(st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()))
def test_literals_mean_the_same_and_hold_no_framing(value: object) -> None:
    text = literal(value)
    assert eval(text) == value
    assert "`" not in text
    assert "[[ ## " not in text


def test_a_program_imports_what_it_names() -> None:
    code = program("count", "print(json.dumps(Counter(re.findall('a', text))))")
    assert code.splitlines()[:4] == ["# Step: count", "from collections import Counter", "import json", "import re"]
    reply = action_reply("why", code)
    assert reply.startswith("[[ ## reasoning ## ]]\nwhy\n\n[[ ## code ## ]]\n```python\n# Step: count\n")
    assert reply.endswith("```\n\n[[ ## completed ## ]]\n")


def test_functions_of_earlier_steps_are_not_repeated() -> None:
    first = program("one", "print(stems(show(1.5)))", (stem, stems, show))
    second = program("two", "x = 1\nprint(stem('words'), show(2), json.dumps(x))", (stem, show))
    assert (
        without_known(second, [first])
        == "# Step: two\nimport json\n\nx = 1\nprint(stem('words'), show(2), json.dumps(x))"
    )
    assert without_known(second, []) == second
    assert without_known(second, [first.replace("lower()", "upper()")]).count("def stem(") == 1
