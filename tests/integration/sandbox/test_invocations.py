"""What one invocation leaves running in a real sandbox does not act, submit or print as the next."""

from typing import Any

import pytest

from services.sandbox.agent import frames
from services.sandbox.agent.frames import Frame, encode
from tests.integration.sandbox.interpreter import Interpreter


@pytest.fixture
async def bench(root: Interpreter) -> Interpreter:
    async def tool(who: str) -> str:
        return who

    await root.open([("answer", "str")], tool=(tool, ["who"]))
    return root


_LATE = """
import threading
gate, told = threading.Event(), []
def attempt(who):
    for act in (lambda: tool(who), lambda: SUBMIT(who)):
        try:
            act()
            told.append('done')
        except RuntimeError as error:
            told.append(str(error))
    print(who, flush=True)
def late():
    gate.wait()
    attempt('late')
    later = threading.Thread(target=attempt, args=('later',))
    later.start()
    later.join()
thread = threading.Thread(target=late)
thread.start()
"""


async def test_late_threads_and_those_they_start_are_refused_and_not_heard(bench: Interpreter) -> None:
    await bench.run(_LATE, invocation="a")
    result = await bench.run("gate.set(); thread.join(); print('own'); tool('own')", invocation="b")
    assert (result.status, result.output) == ("ok", "own\n")
    assert [arguments for _, _, arguments in bench.calls] == [{"who": "own"}]
    told: list[str] = eval((await bench.run("told", invocation="b")).result_repr)
    assert ["not started by the running Turn" in text for text in told] == [True, False] * 2
    assert ["SUBMIT() can't be called" in text for text in told] == [False, True] * 2


async def test_threads_of_the_same_invocation_go_on_in_its_later_steps(bench: Interpreter) -> None:
    await bench.run("1", invocation="z")
    await bench.run(_LATE, invocation="a")
    result = await bench.run("gate.set(); thread.join()", invocation="a")
    assert (result.status, result.final) == ("final", {"answer": "late"})
    assert [arguments for _, _, arguments in bench.calls] == [{"who": "late"}]


async def test_a_call_that_is_open_when_its_step_ends_is_refused(bench: Interpreter) -> None:
    code = (
        "import threading\nseen = []\n"
        "def busy():\n"
        "    try:\n        while True: tool('busy')\n"
        "    except RuntimeError as error: seen.append(str(error))\n"
        "t = threading.Thread(target=busy); t.start(); tool('first')"
    )
    assert (await bench.run(code, invocation="a")).status == "ok"
    before = len(bench.calls)
    assert (await bench.run("t.join(); len(seen)", invocation="b")).result_repr == "1"
    assert {execution for execution, _, _ in bench.calls[before:]} <= {bench.calls[0][0]}


async def test_pools_and_threads_below_threading_are_marked_too(bench: Interpreter) -> None:
    code = (
        "import _thread\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1)\ndef call(who='pool'):\n"
        "    try: return tool(who)\n    except RuntimeError as error: return str(error)\n"
        "go, done, said = _thread.allocate_lock(), _thread.allocate_lock(), []\ngo.acquire(); done.acquire()\n"
        "def raw():\n    with go: said.append(call('raw'))\n    done.release()\n"
        "_thread.start_new_thread(raw, ())\npool.submit(call).result()"
    )
    assert (await bench.run(code, invocation="a")).result_repr == "'pool'"
    result = await bench.run("go.release(); done.acquire(); (pool.submit(call).result(), *said)", invocation="b")
    assert result.result_repr.count("not started by the running Turn") == 2
    fresh = "with ThreadPoolExecutor(1) as own: answer = own.submit(call, 'own').result()\nanswer"
    assert (await bench.run(fresh, invocation="b")).result_repr == "'own'"


async def test_processes_end_with_their_invocation(bench: Interpreter) -> None:
    code = (
        "import os, subprocess\n"
        "child = subprocess.Popen(['/bin/sh', '-c', 'while true; do echo child; sleep 0.01; done'])\n"
        "copy = os.fork()\nwhile copy == 0: print('copy', flush=True)\n"
    )
    assert (await bench.run(code, invocation="a")).status == "ok"
    assert (await bench.run("child.poll()", invocation="a")).status == "ok"
    result = await bench.run("child.wait(), os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])", invocation="b")
    assert result.result_repr == "(-9, -9)"
    assert (await bench.run("print('own')", invocation="b")).output == "own\n"


_RAW = """
import ctypes, os
data = {data!r}
write = lambda: os.write(3, data)
"""


def _call(**control: Any) -> bytes:
    return encode(Frame(frames.TOOL_CALL, {"call_id": "c", "name": "tool", **control}, b'{"who": "forged"}'))


@pytest.mark.parametrize("control", [{}, {"invocation": "a"}, {"invocation": None}, {"invocation": 5}])
async def test_a_forged_call_without_the_running_mark_is_refused(bench: Interpreter, control: dict[str, Any]) -> None:
    await bench.run("1", invocation="a")
    result = await bench.run(f"{_RAW.format(data=_call(**control))}\nwrite()\ntool('own')", invocation="b")
    assert result.result_repr == "'own'"
    assert [arguments for _, _, arguments in bench.calls] == [{"who": "own"}]


async def test_another_process_can_t_speak_for_the_worker(bench: Interpreter) -> None:
    # A copy made past Python's own fork keeps the socket.
    code = (
        f"{_RAW.format(data=_call(invocation='a'))}\n"
        "if ctypes.CDLL(None).fork() == 0:\n    write(); os._exit(0)\n"
        "import time; time.sleep(5)"
    )
    result = await bench.run(code, invocation="a")
    assert (result.status, result.state_lost) == ("died", True)
    assert "pipe" in result.error["message"]
    assert bench.calls == []
    assert (await bench.run("tool('own')", invocation="a")).result_repr == "'own'"


async def test_a_thread_that_python_did_not_start_calls_nothing(bench: Interpreter) -> None:
    code = (
        "import ctypes\nsaid = []\n"
        "@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)\n"
        "def foreign(_):\n"
        "    try: said.append(tool('foreign'))\n    except RuntimeError as error: said.append(str(error))\n"
        "libc, handle = ctypes.CDLL(None), ctypes.c_ulong()\n"
        "libc.pthread_create(ctypes.byref(handle), None, foreign, None)\nlibc.pthread_join(handle, None)\nsaid"
    )
    assert "not started by the running Turn" in (await bench.run(code, invocation="a")).result_repr
    assert bench.calls == []
