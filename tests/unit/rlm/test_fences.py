"""Code is found in whatever fence a model puts around it."""

from __future__ import annotations

import pytest

from services.rlm.adapter.fences import CodeError, extract

ONE = "print(1)"
END = "\n\n[[ ## completed ## ]]"
QUOTED = "p = '''Reply as\n```json\n{}\n```'''\nprint(llm_query(p))"
FENCE_LINE = "p = '''\n```\n{}\n```\n'''\nprint(p)"
MARKERS = "x = '''\n[[ ## completed ## ]]\n[[ ## code ## ]]\n'''\nprint(x)"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(ONE, ONE, id="bare"),
        pytest.param(f"```python\n{ONE}\n```", ONE, id="python"),
        pytest.param(f"```\n{ONE}\n```", ONE, id="no tag"),
        pytest.param(f"~~~\n{ONE}\n~~~", ONE, id="tildes"),
        pytest.param(f"~~~python\n{ONE}\n~~~", ONE, id="tildes with tag"),
        pytest.param(f"````python\n{ONE}\n````", ONE, id="four"),
        pytest.param(f"```py\n{ONE}\n```", ONE, id="py"),
        pytest.param(f"```Python3\n{ONE}\n```", ONE, id="python3"),
        pytest.param(f"```repl\n{ONE}\n```", ONE, id="repl"),
        pytest.param(f"```ipython\n{ONE}\n```", ONE, id="ipython"),
        pytest.param(f"```tool_code\n{ONE}\n```", ONE, id="tool_code"),
        pytest.param(f"```python {ONE}```", ONE, id="one line"),
        pytest.param(f"```{ONE}```", ONE, id="one line without tag"),
        pytest.param(f"```python\n{ONE}```", ONE, id="closed on the last line"),
        pytest.param(f"```\n```python\n{ONE}\n```\n```", ONE, id="decorated"),
        pytest.param(f"  ```python\n  {ONE}\n  print(2)\n  ```", f"{ONE}\nprint(2)", id="indented"),
        pytest.param(f"Let me look:\n\n```python\n{ONE}\n```\nThis prints 1.", ONE, id="prose around"),
        pytest.param(f"```python\na = 1\n```\nthen\n```python\nprint(a)\n```{END}", "a = 1\nprint(a)", id="two blocks"),
        pytest.param(f"```python\n{ONE}\n```\nIt gives:\n```\nfoo bar\n```", ONE, id="expected output after it"),
        pytest.param(f"```json\n{{}}\n```\n```python\n{ONE}\n```", ONE, id="other block before it"),
        pytest.param(f"```python\n{ONE}\n```{END}\n```python\nprint(2)\n```", ONE, id="block after the end"),
        pytest.param(f"```python\n{ONE}{END}", ONE, id="not closed but ended"),
        pytest.param(f"```python\n{QUOTED}\n```{END}", QUOTED, id="fences in a string"),
        pytest.param(f"{QUOTED}{END}", QUOTED, id="unfenced with fences in a string"),
        pytest.param(f"```python\n{FENCE_LINE}\n```{END}", FENCE_LINE, id="lone fence lines in a string"),
        pytest.param(f"```python\n{MARKERS}\n```{END}", MARKERS, id="marker lines in a string"),
        pytest.param(f"{MARKERS}{END}", MARKERS, id="unfenced with marker lines"),
        pytest.param(f"```python\n{FENCE_LINE}\nprint((\n```", f"{FENCE_LINE}\nprint((", id="with a mistake"),
        pytest.param(f"print(1{END}", "print(1", id="unfenced with a mistake"),
    ],
)
def test_code_as_written(text: str, code: str) -> None:
    assert extract(text) == code


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("```python\n\n```", "empty"),
        ("null", "empty"),
        ("None", "empty"),
        ("[[ ## completed ## ]]", "empty"),
        ("```json\n{}\n```", "marked 'json'"),
        ("```bash\nls\n```", "marked 'bash'"),
        ("```python\ndelete_old()\n", "cut off"),
        ("```python\nx = [1,\n", "cut off"),
    ],
)
def test_what_is_no_program(text: str, reason: str) -> None:
    with pytest.raises(CodeError, match=reason):
        extract(text)


def test_hostile_text_takes_no_long_time() -> None:
    text = "```python\n" + "'''\n```\n" * 2_000
    assert extract(text + "[[ ## completed ## ]]")
