from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor

import pytest

from services.common.python_syntax import parse_python


def test_many_threads_parse_at_once() -> None:
    source = "\n".join(f"value_{number} = [item * {number} for item in range({number})]" for number in range(300))
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(lambda _number: parse_python(source), range(32)))
    assert {ast.dump(tree) for tree in trees} == {ast.dump(ast.parse(source))}


def test_what_is_not_python() -> None:
    with pytest.raises(SyntaxError):
        parse_python("def")
