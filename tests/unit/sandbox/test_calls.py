"""Which host calls reach the host."""

import pytest

from services.sandbox.agent import frames
from services.sandbox.agent.answers import WorkerCall
from services.sandbox.agent.calls import HostCalls
from services.sandbox.agent.frames import Frame


def _call(body: bytes = b"{}", **control: object) -> WorkerCall:
    return WorkerCall(Frame(frames.TOOL_CALL, {"call_id": "w", "name": "tool", "invocation": "b", **control}, body))


@pytest.fixture
def calls() -> HostCalls:
    calls = HostCalls()
    calls.allow(["tool"])
    calls.invocation = "b"
    return calls


@pytest.mark.parametrize(
    ("call", "running", "full", "said"),
    [
        (_call(), True, False, ""),
        (_call(), False, False, "only while a step runs"),
        (_call(invocation="a"), True, False, "earlier one"),
        (_call(invocation=None), True, False, "not started by the running Turn"),
        (_call(name="other"), True, False, "no such host tool"),
        (_call(), True, True, "at the same time"),
        (_call(b"[]"), True, False, "not a JSON object"),
    ],
)
def test_refusals(calls: HostCalls, call: WorkerCall, running: bool, full: bool, said: str) -> None:
    refusal = calls.refusal(call, running=running, full=full)
    assert said in refusal
    assert bool(refusal) == bool(said)


def test_open_calls_are_paired_and_bounded(calls: HostCalls) -> None:
    ids = [calls.opened(_call(call_id=f"w{number}"), 3) for number in range(128)]
    assert ids[:2] == ["3-1", "3-2"]
    assert "more than 128" in calls.refusal(_call(), running=True, full=False)
    assert calls.closed("3-2") == "w1"
    assert calls.closed("3-2") is None
    assert len(calls.end()) == 127
    assert calls.end() == []
    assert calls.refusal(_call(), running=True, full=False) == ""
