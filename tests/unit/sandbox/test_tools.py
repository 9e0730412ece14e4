"""Host functions: Python's own rules for arguments, JSON only, the first SUBMIT wins."""

from typing import Any

import pytest

from services.sandbox.agent import wire_json
from services.sandbox.agent.lineage import Lineage
from services.sandbox.agent.link import encode_arguments
from services.sandbox.agent.submit import Submission, Submitted, make_submit
from services.sandbox.agent.tools import Parameter, make_function


def _lookup() -> Any:
    parameters = [Parameter("key", False), Parameter("limit", True)]
    return make_function("lookup", parameters, "Looks up.", lambda given: given)


def test_positional_and_keyword_arguments() -> None:
    lookup = _lookup()
    assert lookup("a") == {"key": "a"}
    assert lookup("a", 2) == lookup("a", limit=2) == lookup(limit=2, key="a") == {"key": "a", "limit": 2}
    assert (lookup.__name__, lookup.__doc__) == ("lookup", "Looks up.")


@pytest.mark.parametrize("arguments", [((), {}), (("a", 1, 2), {}), (("a",), {"other": 1}), (("a",), {"key": "b"})])
def test_wrong_arguments_name_the_function(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    with pytest.raises(TypeError, match=r"lookup\(\)"):
        _lookup()(*arguments[0], **arguments[1])


def test_a_required_parameter_after_an_optional_one_is_keyword_only() -> None:
    function = make_function("f", [Parameter("a", True), Parameter("b", False)], "", lambda given: given)
    assert function(b=1) == {"b": 1}
    with pytest.raises(TypeError):
        function(1, 2)


@pytest.mark.parametrize("name", ["a b", "x):\n  pass\ndef y(", "class", ""])
def test_names_that_are_no_identifiers_are_refused(name: str) -> None:
    with pytest.raises(ValueError):
        make_function(name, [], "", lambda given: given)
    with pytest.raises(ValueError):
        make_function("f", [Parameter(name, False)], "", lambda given: given)


@pytest.mark.parametrize("value", [{1}, b"x", object(), float("nan"), {"a": [{1: {2}}]}])
def test_arguments_must_be_json(value: object) -> None:
    with pytest.raises(TypeError, match=r"f\(\) argument 'x' is not JSON"):
        encode_arguments("f", {"ok": 1, "x": value})


def test_deep_and_large_arguments_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TypeError, match="nested too deeply"):
        encode_arguments("f", {"x": deep})
    with pytest.raises(ValueError, match="at most"):
        encode_arguments("f", {"x": "y" * (9 << 20)})


def _submit(*fields: tuple[str, str]) -> tuple[Any, Submission]:
    submission = Submission(Lineage())
    return make_submit(fields, submission), submission


def _final(submission: Submission) -> Any:
    return wire_json.loads(submission.final or b"null")


def test_submit_takes_positional_and_keyword_outputs() -> None:
    submit, submission = _submit(("answer", "str"), ("evidence", "list"))
    for arguments, keywords in ((("a", ["b"]), {}), (("a",), {"evidence": ("b",)})):
        submission.clear()
        with pytest.raises(Submitted):
            submit(*arguments, **keywords)
        assert _final(submission) == {"answer": "a", "evidence": ["b"]}


def test_submit_without_fields_takes_one_output() -> None:
    submit, submission = _submit()
    with pytest.raises(Submitted):
        submit({"x": 1})
    assert _final(submission) == {"output": {"x": 1}}


@pytest.mark.parametrize(
    ("kind", "value", "given"),
    [("str", 42, "42"), ("float", 1, 1), ("int", 3, 3), ("bool", True, True), ("dict", {}, {}), ("", None, None)],
)
def test_values_that_fit(kind: str, value: object, given: object) -> None:
    submit, submission = _submit(("x", kind))
    with pytest.raises(Submitted):
        submit(value)
    assert _final(submission) == {"x": given}


@pytest.mark.parametrize(
    ("kind", "value"), [("str", None), ("str", ["a"]), ("int", "1"), ("int", True), ("list", "ab"), ("dict", [])]
)
def test_values_that_do_not_fit(kind: str, value: object) -> None:
    submit, submission = _submit(("x", kind))
    with pytest.raises(TypeError, match=f"'x' must be {kind}"):
        submit(value)
    assert submission.final is None


def test_a_refused_submit_does_not_count_and_the_first_one_wins() -> None:
    submit, submission = _submit(("x", ""))
    with pytest.raises(TypeError):
        submit({1, 2})
    with pytest.raises(TypeError):
        submit()
    for value in (1, 2):
        with pytest.raises(Submitted):
            submit(value)
    assert _final(submission) == {"x": 1}
    assert not issubclass(Submitted, Exception)
