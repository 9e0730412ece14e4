"""Programs with three back-ticks reach DSPy's parser with the same meaning."""

from __future__ import annotations

import ast
import itertools
import warnings

import pytest
from dspy.predict.rlm import _strip_code_fences
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from services.rlm.adapter.backticks import BackticksRemainError, harmless
from services.rlm.adapter.fences import extract
from services.rlm.adapter.python_source import compiles, scan

CASES = [
    "x = '```'", 'x = "a```b````c"', "x = r'```(\\w+)'", "x = b'```'", "x = rb'```\\d'", "x = '''\n```python\n'''",
    "x = f'{1}```{2}'", "x = f'''\n```{x!r:>{10}}\n```'''", "x = f'{{```}}'", "x = f'{y:```>5}'",
    "# ```\nx = 1", "x = '\\```'",
    "x = 1  # a ``` b", "def f():\n    '''Doc ``` string.'''\n", "x = ('```' '```')", "x = u'```'",
    "x = f'{d[\"a```b\"]}'", "if x in ('```',): pass", "return_ = 1\nx = '```'.join('```')", "x = Rb'''```'''",
    "match x:\n    case '```': pass", "x = '# ```'  # '```",
    "x = '\\'```'", "x = \"\"\"it's ```\"\"\"", "def f():\n    return'```'", "x = f'{f\"{1}```\"}```'",
]  # fmt: skip


def _quiet(source: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.dump(ast.parse(source))


@pytest.mark.parametrize("code", CASES)
def test_the_program_stays_the_same(code: str) -> None:
    rewritten = harmless(code)
    assert "```" not in rewritten
    assert _quiet(rewritten) == _quiet(code)
    assert _strip_code_fences(rewritten) == rewritten.strip()


def test_what_can_not_be_rewritten_is_told() -> None:
    with pytest.raises(BackticksRemainError):
        harmless("x = rf'{y:```>5}'")


def test_a_mistake_stays_a_mistake() -> None:
    rewritten = harmless("print(1)\n```\nrm -rf\n```")
    assert "```" not in rewritten
    assert not compiles(rewritten)


def test_code_without_back_ticks_is_untouched() -> None:
    code = "x = '``'\nprint(x)"
    assert harmless(code) is code


_SCRAPS = [*"`'\"\\{}ab#\n~ \u2028\x0c", "[[ ## code ## ]]", "\n[[ ## completed ## ]]\n", "```", "\n```\n", "\n~~~\n"]
_TEXTS = st.lists(st.sampled_from(_SCRAPS), max_size=12).map("".join)


@st.composite
def _strings(draw: st.DrawFn) -> str:
    """A string literal in any of Python's forms."""
    text = draw(_TEXTS)
    prefix = draw(st.sampled_from(["", "r", "f", "b", "rf", "rb", "F", "u"]))
    quote = draw(st.sampled_from(["'", '"', "'''", '"""']))
    if "b" in prefix.lower():
        text = text.encode("ascii", "ignore").decode()
    if "f" in prefix.lower():
        text = text.replace("{", "{{").replace("}", "}}") + draw(st.sampled_from(["", "{1}", "{x!r}", "{x:>3}```"]))
    return f"{prefix}{quote}{text}{quote}"


@st.composite
def _programs(draw: st.DrawFn) -> str:
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        literal = draw(_strings())
        comment = draw(st.sampled_from(["", "  # ```", "  # '", '  # """ ```']))
        form = draw(st.sampled_from(["x = {}", "print({}, 1)", "def f():\n    {}\n    return 1", "x = [{}][0]", "{}"]))
        lines.append(form.format("\0").replace("\0", literal) + comment)
    return "\n".join(lines)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(_programs(), st.sampled_from(["```python\n{}\n```", "~~~\n{}\n~~~", "````\n{}\n````", "{}"]))
def test_any_program_survives_a_fence_and_dspy(program: str, fence: str) -> None:
    assume(compiles(program))
    reply = fence.replace("{}", program) + "\n\n[[ ## completed ## ]]"
    try:
        code = harmless(extract(reply))
    except BackticksRemainError:
        event("asked again")
        return
    assert _quiet(_strip_code_fences(code)) == _quiet(program)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from(list("fr'\"\\{}:!#`a\n")), max_size=40))
def test_scanning_any_text_ends_and_keeps_it(text: str) -> None:
    pieces, _ = scan(text)
    assert all(0 <= piece.start <= piece.end <= len(text) for piece in pieces)
    assert all(one.end <= other.start for one, other in itertools.pairwise(pieces))
