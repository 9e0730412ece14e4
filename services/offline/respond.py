"""From messages to a reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from services.offline.child import next_for_child
from services.offline.extract import extract_fields
from services.offline.general import next_for_variables
from services.offline.programs.compose import without_known
from services.offline.prompt import Action, Extraction, recognise
from services.offline.reply import action_reply, fields_reply
from services.offline.root import next_for_root
from services.offline.run import Next, Run
from services.offline.sub import answer_prompt
from services.offline.wire import Message


def respond(messages: Sequence[Message]) -> str:
    """The reply to a conversation; the same messages always get the same reply."""
    asked = recognise(messages)
    if isinstance(asked, Action):
        step = next_step(asked)
        return action_reply(step.reasoning, step.code)
    if isinstance(asked, Extraction):
        return fields_reply(extract_fields(asked))
    return answer_prompt(asked.text)


def next_step(action: Action) -> Next:
    """The next program of an RLM run; functions that an earlier step has defined are not repeated."""
    step = _policy(action)(action)
    return Next(step.reasoning, without_known(step.code, Run(action).programs))


def _policy(action: Action) -> Callable[[Action], Next]:
    if "request" in action.variables:
        return next_for_root
    if {"task", "inputs"} <= action.variables.keys():
        return next_for_child
    return next_for_variables
