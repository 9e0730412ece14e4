"""When a model is asked again."""

from __future__ import annotations

import dspy
import pytest

from services.rlm.adapter.chat import ReplyError
from services.rlm.adapter.reask import Reasks
from services.rlm.models.provider_line import LineCut

SIGNATURE = dspy.Signature("question -> answer")


def _unreadable() -> ReplyError:
    return ReplyError(SIGNATURE, "the reply was empty")


def test_two_more_requests_and_then_the_first_error() -> None:
    reasks, first = Reasks(None), _unreadable()
    assert reasks.purpose("action") == "action"
    assert reasks.after(first, "again") == 0.0
    assert (reasks.purpose("action"), reasks.feedback) == ("re-ask 1", "again")
    assert reasks.after(dspy.LMTimeoutError("late"), "again") == 1.0
    assert (reasks.purpose("action"), reasks.feedback) == ("re-ask 2", "")
    with pytest.raises(ReplyError) as raised:
        reasks.after(_unreadable(), "again")
    assert raised.value is first


@pytest.mark.parametrize("error", [dspy.LMAuthError("x", status=401), RuntimeError("a bug"), LineCut(sent=True)])
def test_what_can_not_pass_is_raised_at_once(error: Exception) -> None:
    with pytest.raises(type(error)):
        Reasks(None).after(error, "again")
