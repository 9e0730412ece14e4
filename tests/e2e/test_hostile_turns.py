"""Turns whose code, callers or surroundings mean harm, through every service of a running deployment."""

from __future__ import annotations

import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.deployment import Deployment, sandbox_processes
from tests.e2e.rest_client import Rest
from tests.fakes.scripted_llm import Reply

pytestmark = pytest.mark.timeout(120)

DONE = "SUBMIT('done')"


def run(
    deployment: Deployment, *steps: str | Reply, session: str = "", attachments: tuple[str, ...] = ()
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a Turn of these steps; returns the Turn and its events."""
    rest = deployment.rest
    question = deployment.plans.root(*steps)
    turn = rest.start(session or rest.session(), question, attachments=list(attachments)).raise_for_status().json()
    events = list(rest.events(turn["id"]))
    return rest.turn(turn["id"]), events


def printed(events: list[dict[str, Any]]) -> list[str]:
    """The final output of each step."""
    return [event["text"] for event in events if event["type"] == "output" and event["final"]]


def attach(deployment: Deployment, content: bytes) -> str:
    files = {"file": ("a.txt", content, "text/plain")}
    return str(deployment.rest.http.post("/v1/attachments", files=files).raise_for_status().json()["id"])


def test_code_that_breaks_its_interpreter_gets_another_and_the_turn_goes_on(deployment: Deployment) -> None:
    attacks = [
        "import os; os._exit(0)",
        "import os; os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)",
        "import os; os.closerange(0, 1000)",
        "import os\nfor fd in range(3, 9):\n    try: os.write(fd, b'forged' * 20)\n    except OSError: pass",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: break",
        "import json, sys, builtins; json.dumps = sys.stdout = builtins.len = None",
        "SUBMIT(float('nan'))",
        "raise SystemExit(3)",
    ]
    turn, events = run(deployment, *attacks, "1 / 0", DONE)
    assert (turn["state"], turn["answer"], turn["termination"]) == ("COMPLETED", "done", "submit")
    outputs = printed(events)
    assert "finite" in outputs[attacks.index("SUBMIT(float('nan'))")]
    last = next(output for output in outputs if "ZeroDivisionError" in output)
    assert "fleet_agent" not in last, "a step's traceback tells of its own code only"


def test_code_sees_no_secret_and_reaches_nothing(deployment: Deployment) -> None:
    ports = [int(address.rpartition(":")[2].strip("/")) for address in _addresses(deployment)]
    steps = (
        "import os, subprocess\nprint(dict(os.environ), subprocess.run(['env'], capture_output=True).stdout)",
        "for name in ('/proc/1/environ', '/proc/1/mem', '/etc/gshadow', '/etc/shadow'):\n"
        "    try: print('read', open(name, 'rb').read(64))\n    except OSError: pass",
        f"import socket\nfor place in [('169.254.169.254', 80)] + [('127.0.0.1', port) for port in {ports}]:\n"
        "    try: socket.create_connection(place, 2); print('reached', place)\n    except OSError: pass",
        "import os; print(os.listdir('/workspace/..'), os.path.exists('/root'), os.path.exists('/tmp/pytest-of-root'))",
    )
    turn, events = run(deployment, *steps, DONE)
    assert turn["state"] == "COMPLETED"
    outputs = printed(events)
    assert (outputs[1], outputs[2]) == ("", "")
    assert outputs[3].rstrip().endswith("False False")
    assert "secret" not in json.dumps(events)


def _addresses(deployment: Deployment) -> list[str]:
    return [value for value in deployment.addresses.values() if isinstance(value, str) and ":" in value]


def test_attachments_outlast_what_code_does_to_them(deployment: Deployment) -> None:
    first, second = attach(deployment, b"as uploaded"), attach(deployment, b"another")
    task = deployment.plans.child(
        "SUBMIT(answer=open(inputs[0]['local_path']).read(), evidence=[], gaps=[], result_files=[])"
    )
    turn, events = run(
        deployment,
        "place = attachments[0].local_path\nopen(place, 'w').write('TAMPERED!!!')",
        "attachments[0].text()",
        f"print(rlm_query({task!r}, [attachments[0].path])['answer'])",
        "import os, shutil; shutil.rmtree('/workspace/attachments'); os.symlink('/tmp', '/workspace/attachments')",
        DONE,
        attachments=(first,),
    )
    assert turn["state"] == "COMPLETED"
    outputs = printed(events)
    assert "AttachmentError" in outputs[1]
    assert outputs[2] == "as uploaded\n"
    later, events = run(deployment, "print(attachments[0].text())", DONE, attachments=(second,))
    assert (later["state"], printed(events)[0]) == ("COMPLETED", "another\n")


def test_arguments_of_a_child_that_break_a_limit_are_its_outcome(deployment: Deployment) -> None:
    ask = "print([rlm_query(**asked)['error']['category'] for asked in ({}, {}, {})])".format(
        "{'task': 'x' * 2001}", "{'task': 'x', 'context': 'y' * 2001}", "{'task': 'x', 'inputs': ['a'] * 17}"
    )
    _turn, events = run(deployment, ask, DONE)
    assert printed(events)[0] == "['invalid_task', 'invalid_task', 'invalid_inputs']\n"


def test_a_failed_sub_query_names_the_sub_model_and_tells_no_secret(deployment: Deployment) -> None:
    turn, events = run(deployment, "try: llm_query('BROKEN')\nexcept Exception as error: print(error)", DONE)
    assert turn["state"] == "COMPLETED"
    assert printed(events)[0].startswith("The Sub model's provider failed")


@pytest.mark.parametrize(
    "bad",
    [
        Reply(None),
        Reply(" \n"),
        Reply("I would rather talk."),
        Reply('{"reasoning": "x", "co'),
        Reply("cut", finish_reason="length"),
        Reply("busy", status=429, headers={"Retry-After": "0"}),
        Reply("", close=True),
    ],
    ids=["null", "blank", "prose", "half", "length", "busy", "hung-up"],
)
def test_one_bad_reply_never_costs_the_turn(deployment: Deployment, bad: Reply) -> None:
    turn, events = run(deployment, "print('kept')", bad, DONE)
    assert (turn["state"], turn["answer"]) == ("COMPLETED", "done")
    assert printed(events)[0] == "kept\n"


def test_equal_requests_at_once_are_one_turn(deployment: Deployment) -> None:
    question, session = deployment.plans.root(DONE), deployment.rest.session()

    def post(_number: int) -> tuple[int, str]:
        with Rest(deployment.addresses["gateway"]) as rest:
            response = rest.start(session, question, key="same")
            return response.status_code, response.json()["id"]

    with ThreadPoolExecutor(20) as pool:
        found = set(pool.map(post, range(20)))
    assert len(found) == 1
    ((status, turn),) = found
    assert status == 202
    list(deployment.rest.events(turn))
    assert deployment.plans.asked[question] == 1


def test_turns_at_once_on_one_session_never_cross(deployment: Deployment) -> None:
    session = deployment.rest.session()

    def ask(name: str) -> str:
        with Rest(deployment.addresses["gateway"]) as rest:
            response = rest.start(session, deployment.plans.root(f"x = {name!r}", "SUBMIT(x)"))
            if response.status_code == 409:
                return str(response.json()["code"])
            turn = response.json()["id"]
            list(rest.events(turn))
            return str(rest.turn(turn)["answer"])

    with ThreadPoolExecutor(2) as pool:
        for number in range(8):
            names = [f"a{number}", f"b{number}"]
            answers = list(pool.map(ask, names))
            assert all(answer in (name, "TURN_IN_PROGRESS") for name, answer in zip(names, answers, strict=True))
            assert answers != ["TURN_IN_PROGRESS"] * 2


def test_a_killed_sandbox_fails_its_turn_and_not_the_next(deployment: Deployment) -> None:
    rest, session = deployment.rest, deployment.rest.session()
    turn = rest.start(session, deployment.plans.root("import time; print('in', flush=True); time.sleep(60)")).json()
    for event in rest.events(turn["id"]):
        if event["type"] == "output" and "in" in event["text"]:
            for pid in sandbox_processes(deployment.data_root):
                os.kill(pid, signal.SIGKILL)
    ended = rest.turn(turn["id"])
    assert (ended["state"], ended["error"]["reason"]) == ("FAILED", "INTERPRETER_FAILED")
    again, events = run(deployment, DONE, session=session)
    assert again["state"] == "COMPLETED"
    ready = next(event for event in events if event["type"] == "sandbox.ready")
    assert (ready["resident"], bool(ready["rotation_reason"])) == (False, True)


def test_a_client_that_reads_nothing_holds_nobody_up(deployment: Deployment) -> None:
    rest = deployment.rest
    flood = "for number in range(20_000): print(number, 'z' * 40)"
    turn = rest.start(rest.session(), deployment.plans.root(flood, flood, DONE)).json()["id"]
    host, _, port = deployment.addresses["gateway"].removeprefix("http://").partition(":")
    request = f"GET /v1/turns/{turn}/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    silent = [socket.create_connection((host, int(port))) for _ in range(5)]
    try:
        for connection in silent:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(request)
        events = list(rest.events(turn))
    finally:
        for connection in silent:
            connection.close()
    assert events[-1]["type"] == "turn.completed"
    assert max(len(json.dumps(event)) for event in events) < 65_536
