"""One running deployment for every end-to-end test that needs nothing of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.e2e.deployment import Deployment, up
from tests.e2e.rest_client import Rest
from tests.fakes.planned_llm import Plans
from tests.fakes.scripted_llm import Reply, Request, ScriptedLlm, action


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """`fleet up` with a scripted provider."""
    home = tmp_path_factory.mktemp("up")
    gate, plans = threading.Event(), Plans()
    with ScriptedLlm(lambda request: _answer(request, gate, plans)) as llm:
        provider = {"FLEET_LLM_BASE_URL": llm.base_url, "FLEET_LLM_API_KEY": "sk-secret-of-the-provider"}
        options = ["--set=llm.sub.model=sub-model", "--set=rlm.execution_timeout_seconds=5"]
        with up(home, "--profile", "local-provider", *options, **provider) as process:
            addresses = process.ready()
            with Rest(addresses["gateway"]) as rest:
                yield Deployment(process, rest, addresses, gate, plans, home / "data")
            assert process.stop() == 0


def _answer(request: Request, gate: threading.Event, plans: Plans) -> Reply | str:
    """What the scripted models do: the steps of a plan, or what the question's name stands for."""
    if request.model == "sub-model":
        return Reply("no such thing", status=500) if "BROKEN" in request.prompt else "sub"
    return plans.answer(request) or _named(request.prompt, gate)


def _named(prompt: str, gate: threading.Event) -> Reply | str:
    if "QUESTION-BROKEN" in prompt:
        return Reply("", status=401, error_code="invalid_api_key")
    if "QUESTION-READ" in prompt:
        return action("SUBMIT(str(kept + 1))")
    if "QUESTION-SET" in prompt:  # after the others: earlier questions stand in the preview of the history
        return action("kept = 41\nSUBMIT('set')")
    if "QUESTION-WAIT" in prompt:
        if "first step" not in prompt:
            return action("print('first step')")
        return Reply(action("SUBMIT('waited')"), gate=gate)
    return action("print('looking at', request)") if "looking at" not in prompt else action("SUBMIT('42')")
