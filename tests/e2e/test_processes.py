"""The services as processes of their own, and what a power cut leaves."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.deployment import FleetProcess, environment, free_port, sandbox_processes, up
from tests.e2e.rest_client import Rest
from tests.fakes.scripted_llm import Reply, Request, ScriptedLlm, action

pytestmark = pytest.mark.timeout(240)

COMPONENTS = ("sandbox", "recursion", "session", "gateway")


@contextlib.contextmanager
def separate_processes(home: Path, llm: ScriptedLlm) -> Iterator[str]:
    """The four services; yields the gateway's URL."""
    ports = {name: free_port() for name in COMPONENTS}
    env = environment(home, FLEET_LLM_BASE_URL=llm.base_url, FLEET_LLM_API_KEY="key")
    options = ["--profile", "local-provider", "--set", f"storage.data_root={home / 'data'}"]
    for name in COMPONENTS:
        key = "server.ports.gateway" if name == "gateway" else f"services.{name}.address"
        value = str(ports[name]) if name == "gateway" else f"127.0.0.1:{ports[name]}"
        options += ["--set", f"{key}={value}"]
    with contextlib.ExitStack() as stack:
        processes = {
            name: stack.enter_context(FleetProcess(["serve", name, *options], home, env)) for name in COMPONENTS
        }
        ready = {name: process.ready() for name, process in processes.items()}
        yield ready["gateway"]["address"]
        for name in reversed(COMPONENTS):
            if processes[name].process.poll() is None:
                assert processes[name].stop() == 0, processes[name].log()


def _script(request: Request) -> Reply | str:
    """A Root that asks two children and the Sub model, and joins what they say."""
    messages = request.body["messages"]
    if len(messages) == 1 and messages[0]["content"] == "sub":
        return "sub"
    if "`task`" in request.prompt:
        return action("SUBMIT(answer=f'child of {task}', evidence=['e'], gaps=[], result_files=[])")
    return action(
        "found = rlm_query_batched([{'task': 'one'}, {'task': 'two'}])\n"
        "SUBMIT(' and '.join(item['answer'] for item in found) + ' and ' + llm_query('sub'))"
    )


def test_four_processes_answer_like_one(tmp_path: Path) -> None:
    with ScriptedLlm(_script) as llm:
        with up(tmp_path, "--profile", "local-provider", FLEET_LLM_BASE_URL=llm.base_url, FLEET_LLM_API_KEY="k") as one:
            with Rest(one.ready()["gateway"]) as rest:
                expected = rest.run(rest.session(), "Ask the children.")
            assert one.stop() == 0
        other = tmp_path / "other"
        other.mkdir()
        with separate_processes(other, llm) as gateway, Rest(gateway) as rest:
            turn = rest.run(rest.session(), "Ask the children.")
            events = rest.http.get(f"/v1/turns/{turn['id']}/events?stream=false").json()
        assert expected["answer"] == "child of one and child of two and sub"
        for key in ("state", "answer", "outputs", "termination", "iterations"):
            assert turn[key] == expected[key]
        ended = [event for event in events if event["type"] == "child.completed"]
        assert [(event["status"], event["cleanup"]) for event in ended] == [("completed", "confirmed")] * 2
        assert sandbox_processes(other) == []


def _crash_script(request: Request, gate: threading.Event) -> Reply | str:
    if "QUESTION-CRASH" in request.prompt:
        if "in the middle" not in request.prompt:
            return action("print('in the middle')")
        return Reply(action("SUBMIT('late')"), gate=gate)
    return action("SUBMIT('fine')")


def test_power_cut_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    gate = threading.Event()
    with ScriptedLlm(lambda request: _crash_script(request, gate)) as llm:
        env = {"FLEET_LLM_BASE_URL": llm.base_url, "FLEET_LLM_API_KEY": "k"}
        with up(tmp_path, "--profile", "local-provider", **env) as first, Rest(first.ready()["gateway"]) as rest:
            session = rest.session()
            committed = rest.run(session, "first")
            running = rest.start(session, "QUESTION-CRASH").json()["id"]
            seen = _until_output(rest, running)
            assert sandbox_processes(tmp_path) != []
            first.kill()
        with up(tmp_path, "--profile", "local-provider", **env) as second, Rest(second.ready()["gateway"]) as rest:
            assert rest.turn(committed["id"]) == committed
            events = list(rest.events(running))
            lost = rest.turn(running)
            assert (lost["state"], lost["error"]["reason"]) == ("FAILED", "OWNER_LOST")
            assert events[: len(seen)] == seen
            assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
            assert events[-1]["type"] == "turn.failed"
            again = rest.run(session, "third")
            assert (again["state"], again["answer"]) == ("COMPLETED", "fine")
            assert rest.http.get(f"/v1/sessions/{session}").json()["checkpoint_version"] == 2
            assert second.stop() == 0
        assert sandbox_processes(tmp_path) == []


def _until_output(rest: Rest, turn: str) -> list[dict[str, Any]]:
    seen = []
    for event in rest.events(turn):
        seen.append(event)
        if event["type"] == "output" and event["final"]:
            break
    return seen
