"""What an execution must do, in a real sandbox."""

import asyncio
import json
from typing import Any

import pytest

from services.sandbox.agent import frames
from services.sandbox.agent.frames import Frame
from tests.integration.sandbox.interpreter import Interpreter


async def test_state_is_kept_and_a_trailing_expression_is_shown(root: Interpreter) -> None:
    assert (await root.run("import math\ndef f(x):\n    return x + y\ny = 2")).result_repr == ""
    assert (await root.run("f(math.floor(1.5))")).result_repr == "3"
    for value in ("0", "[]", "False", "{}", "''", "10**30", "'é\\ud800'"):
        assert (await root.run(value)).result_repr == repr(eval(value))
    for statement in ("None", "y = 3", "y += 1", "print", "assert y", "for y in [1]: y", "print('x'); 5"):
        result = await root.run(statement)
        assert result.result_repr == ("<built-in function print>" if statement == "print" else "")
    assert (await root.run("__name__, len(dir())")).result_repr.startswith("('__main__'")


async def test_output_is_kept_and_streamed(root: Interpreter) -> None:
    code = (
        "import os, subprocess, sys\n"
        "print('out'); print('err', file=sys.stderr); os.write(1, b'raw\\n')\n"
        "sys.__stdout__.write('dunder\\n'); sys.stdout.buffer.write(b'buffer\\xff\\n')\n"
        "subprocess.run(['/bin/sh', '-c', 'echo child; echo complaint >&2'])\n"
        "os.system('echo system')\n"
        "print('last')\n"
    )
    result = await root.run(code)
    assert result.status == "ok"
    for word in ("out", "err", "raw", "dunder", "buffer\ufffd", "child", "complaint", "system", "last"):
        assert f"{word}\n" in result.output
    streamed = b"".join(data for _, stderr, data in root.streamed if not stderr)
    assert b"out\n" in streamed
    assert streamed.endswith(b"last\n"), "each of the two streams keeps its order"
    assert b"err\n" in b"".join(data for _, stderr, data in root.streamed if stderr)
    assert sum(len(data) for _, _, data in root.streamed) == result.output_bytes


async def test_output_is_streamed_while_the_code_runs(root: Interpreter) -> None:
    async def gate() -> None:
        assert any(b"before" in data for _, _, data in root.streamed)

    await root.open(gate=(gate, []))
    assert (await root.run("print('before'); gate(); print('after')")).output == "before\nafter\n"


async def test_a_flood_of_output_is_capped(root: Interpreter) -> None:
    result = await root.run("print('head'); print('x' * 100_000_000); print('tail')", max_output=1_000)
    assert (result.status, result.output_bytes, result.truncated) == ("ok", 100_000_000 + 11, True)
    assert result.output.startswith("head\n")
    assert result.output.endswith("tail\n")
    assert len(result.output) < 1_200
    assert sum(len(data) for _, _, data in root.streamed) == 1_000
    shown = await root.run("'y' * 50_000_000", max_output=1_000)
    assert len(shown.result_repr) < 1_200


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("print('a\\x00b')", "a\0b\n"),
        ("print('a\\ud800b')", "a\\ud800b\n"),
        ("import sys; sys.stdout.write('no newline')", "no newline"),
        ("print('é€😀')", "é€😀\n"),
    ],
)
async def test_unusual_characters(root: Interpreter, code: str, output: str) -> None:
    assert (await root.run(code)).output == output


async def test_variables(root: Interpreter) -> None:
    given = [
        ("text", "text", "é\ud800".encode("utf-8", "surrogatepass")),
        ("data", "json", json.dumps({"a": [1, None, "x"]}).encode()),
        ("raw", "bytes", b"\0\xff"),
    ]
    shown = "(text, data, raw)"
    expected = repr(("é\ud800", {"a": [1, None, "x"]}, b"\0\xff"))
    assert (await root.run(shown, variables=given)).result_repr == expected
    await root.run("data['a'].clear(); text = raw = None", variables=given, send_values=False)
    assert (await root.run(shown)).result_repr == "(None, {'a': []}, None)"
    assert (await root.run(shown, variables=given, send_values=False)).result_repr == expected
    missing = await root.run("1", variables=[("other", "text", b"never sent")], send_values=False)
    assert (missing.status, missing.error["type"]) == ("error", "VariableError")
    assert (await root.run("1", variables=[("other", "text", b"never sent")])).result_repr == "1"


async def test_a_large_value_in_parts(root: Interpreter) -> None:
    size, part = 30 << 20, 4 << 20
    for start in range(0, size, part):
        length = min(part, size - start)
        control = {
            "execution_id": "large",
            "code_bytes": 0,
            "values": [{"sha256": "h", "length": length, "byte_size": size}],
            "partial": True,
        }
        await root.send(frames.EXECUTE, control, b"z" * length)
    variables = [{"name": "big", "sha256": "h", "encoding": "text"}]
    await root.send(frames.EXECUTE, {"execution_id": "large", "code_bytes": 8, "variables": variables}, b"len(big)")
    assert (await root.finish("large")).result_repr == str(size)
    ready = await root.open()
    assert ready.control["values"] == ["h"]


@pytest.mark.parametrize(
    ("code", "type_", "line"),
    [
        ("x = 1\n1 / 0", "ZeroDivisionError", 2),
        ("def f():\n    raise KeyError('k')\n\nf()", "KeyError", 2),
        ("import json\njson.loads('{')", "JSONDecodeError", 2),
        ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E()", "E", 3),
        ("class R:\n    def __repr__(self): return 5\nR()", "TypeError", 3),
        ("import sys\nsys.exit(3)", "SystemExit", 2),
        ("exit()", "SystemExit", 1),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", 1),
        ("input()", "EOFError", 1),
        ("import sys\nassert sys.stdin.read() == ''\nraise ExceptionGroup('g', [ValueError(1)])", "ExceptionGroup", 3),
        ("raise Exception({1: object()}, b'x', None)", "Exception", 1),
        ("import pdb; pdb.set_trace()\nx = 1", "BdbQuit", 2),
    ],
)
async def test_exceptions(root: Interpreter, code: str, type_: str, line: int) -> None:
    result = await root.run(code)
    assert (result.status, result.error["type"], result.state_lost) == ("error", type_, False)
    assert result.error["line"] == line
    assert "<step 1>" in result.error["traceback"] or "__repr__" in code
    assert "fleet_agent" not in result.error["traceback"]
    assert (await root.run("'alive'")).result_repr == "'alive'"


@pytest.mark.parametrize("code", ["def f(:", "x =", "a\0b", "'\ud800'", "(" * 1_000, " x = 1", "return 1"])
async def test_code_that_is_no_python(root: Interpreter, code: str) -> None:
    result = await root.run(code)
    assert (result.status, result.state_lost) == ("syntax_error", False)
    assert result.error["message"]
    assert (await root.run("'alive'")).result_repr == "'alive'"


async def test_submit(root: Interpreter) -> None:
    await root.open([("answer", "str"), ("evidence", "list")])
    result = await root.run("print('before')\nSUBMIT('a', evidence=['b'])\nprint('after')")
    assert (result.status, result.output) == ("final", "before\n")
    assert result.final == {"answer": "a", "evidence": ["b"]}
    swallowed = (
        "try:\n    SUBMIT('first', [])\nexcept BaseException:\n    print('swallowed')\n"
        "try:\n    SUBMIT('second', [])\nexcept BaseException:\n    pass\nraise ValueError"
    )
    result = await root.run(swallowed)
    assert (result.status, result.final, result.output) == ("final", {"answer": "first", "evidence": []}, "swallowed\n")
    for code in (
        "SUBMIT({1}, [])",
        "SUBMIT(object(), [])",
        "SUBMIT('a')",
        "SUBMIT('a', [float('nan')])",
        "SUBMIT(b'a', [])",
        "SUBMIT(float('nan'), [])",
        "SUBMIT(float('-inf'), [])",
    ):
        result = await root.run(code)
        assert (result.status, result.error["type"]) == ("error", "TypeError")
        assert "SUBMIT" in result.error["message"]
    assert (await root.run("SUBMIT = 5")).status == "ok"
    threaded = "import threading\nt = threading.Thread(target=lambda: SUBMIT('t', []))\nt.start(); t.join()"
    assert (await root.run(threaded)).final == {"answer": "t", "evidence": []}
    assert (await root.run("SUBMIT('\\ud800x', [])")).final["answer"] == "\ufffdx"


async def test_tools(root: Interpreter) -> None:
    async def lookup(key: Any, limit: int = 7) -> Any:
        if key == "bad":
            raise ValueError("no such key: bad")
        return {"key": key, "limit": limit}

    await root.open(lookup=(lookup, ["key", "limit?"]))
    assert (await root.run("lookup('a')['limit'], lookup(key='a', limit=2)['limit']")).result_repr == "(7, 2)"
    caught = await root.run("try:\n    lookup('bad')\nexcept RuntimeError as e:\n    print(type(e).__name__, e)")
    assert caught.output == "ToolError no such key: bad\n"
    assert (await root.run("lookup('bad')")).error["message"] == "no such key: bad"
    for code in ("lookup()", "lookup('a', 1, 2)", "lookup('a', nope=1)", "lookup({1, 2})", "lookup(key=b'x')"):
        result = await root.run(code)
        assert result.error["type"] == "TypeError"
        assert "lookup()" in result.error["message"]
    assert "About lookup." in (await root.run("help(lookup)")).output
    await root.run("lookup = None")
    assert (await root.run("lookup('again')['key']")).result_repr == "'again'"
    await root.open()
    assert (await root.run("lookup('a')")).error["type"] == "NameError"


async def test_tools_from_threads_at_once(root: Interpreter) -> None:
    together = asyncio.Barrier(8)

    async def meet(n: int) -> int:
        await together.wait()
        return n * n

    await root.open(meet=(meet, ["n"]))
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n    print(list(pool.map(meet, range(8))))"
    )
    assert (await root.run(code)).output == f"{[n * n for n in range(8)]}\n"


async def test_host_calls_are_not_charged(root: Interpreter) -> None:
    async def slow() -> str:
        await asyncio.sleep(1.0)
        return "answer"

    await root.open(slow=(slow, []))
    code = "import threading\nt = threading.Thread(target=slow)\nt.start()\nt.join()\nslow()"
    result = await root.run(code, timeout=0.5)
    assert (result.status, result.result_repr) == ("ok", "'answer'")
    assert result.host_wait > 1.5
    busy = await root.run(
        "import threading\nt = threading.Thread(target=slow)\nt.start()\nwhile True: pass", timeout=0.3
    )
    assert busy.status == "timed_out"
    assert busy.seconds < 2


async def test_calls_outside_a_step_are_refused(root: Interpreter) -> None:
    async def tool() -> int:
        return 1

    await root.open(tool=(tool, []))
    code = (
        "import threading\ngate, seen = threading.Event(), []\n"
        "def late():\n    gate.wait()\n    try: tool()\n    except RuntimeError as e: seen.append(str(e))\n"
        "t = threading.Thread(target=late)\nt.start()\nthreading.Timer(0.1, gate.set).start()"
    )
    assert (await root.run(code)).status == "ok"
    await asyncio.sleep(0.3)
    assert "only while a step runs" in (await root.run("t.join(); seen")).result_repr
    assert root.calls == []


async def test_an_execution_runs_once(root: Interpreter) -> None:
    await root.run("count = 0")
    for _ in range(3):
        assert (await root.run("count += 1\ncount", execution_id="once")).result_repr == "1"
    assert (await root.run("count")).result_repr == "1"


async def test_attaching_again_loses_and_repeats_nothing(root: Interpreter) -> None:
    async def tool(n: int) -> int:
        return n

    await root.open(tool=(tool, ["n"]))
    before = root.seen
    execution_id = await root.start("a = tool(1)\nprint(a)\nb = tool(2)\nprint(b)\nhits = globals().get('hits', 0) + 1")
    first = await root.receive()
    assert first.type == frames.TOOL_CALL
    # The connection breaks here: the call was not seen, so opening again from before repeats it.
    root.seen = before
    control = {"tools": [], "output_fields": [], "last_sequence": before}
    control["tools"] = [{"name": "tool", "description": "", "parameters": [{"name": "n", "optional": False}]}]
    await root.send(frames.OPEN, control)
    result = await root.finish(execution_id)
    assert (result.status, result.output) == ("ok", "1\n2\n")
    assert [arguments for _, _, arguments in root.calls] == [{"n": 1}, {"n": 2}]
    assert (await root.run("hits")).result_repr == "1"


async def test_repeated_requests_are_dropped_and_missing_ones_noticed(root: Interpreter) -> None:
    await root.run("n = 0")
    root.sequence -= 1
    await root.start("n += 1")
    assert (await root.run("n")).result_repr == "0"
    root.sequence += 5
    await root.start("n")
    frame = await root.receive()
    assert (frame.type, frame.control["reason"]) == (frames.LOST, f"protocol: request {root.sequence - 5} is missing")


async def test_a_stale_epoch_is_refused(root: Interpreter) -> None:
    await root.run("x = 1")
    await root.channel.send(Frame(frames.OPEN, {"tools": [], "output_fields": []}, epoch=2, sequence=1))
    assert (await root.receive()).control["epoch"] == 2
    await root.start("x = 2")
    frame = await root.receive()
    assert (frame.type, frame.epoch, frame.control["reason"]) == (frames.LOST, 1, "stale epoch")
    later = Interpreter(root.channel, epoch=2, sequence=1)
    assert (await later.run("x")).result_repr == "1"


async def test_ping(root: Interpreter) -> None:
    await root.send(frames.PING, {"nonce": 7})
    frame = await root.receive()
    assert (frame.type, frame.control) == (frames.PONG, {"nonce": 7})
