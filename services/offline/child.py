"""The offline model as a child: searches its staged inputs for one task."""

from __future__ import annotations

import re

from services.offline.documents import read_survey
from services.offline.programs import documents as prose
from services.offline.programs.answering import SUBMIT, submit_child, submit_text
from services.offline.prompt import Action
from services.offline.question import Question, read_question
from services.offline.run import Next, Run

MOST_PROMPTS = 3
"""Sub model prompts that one child sends: the Turn's budget is shared with its siblings."""

_QUESTION = 'task.split("\\n\\n")[0]'


def next_for_child(action: Action) -> Next:
    """The next program of a child run."""
    run = Run(action)
    if run.losses > 2 or run.given_up(prose.LOOK, 2) or run.failures(SUBMIT) >= 2:
        return Next("The inputs can't be read.", submit_text(action.outputs, ["The staged inputs could not be read."]))
    if run.done(prose.LOOK) is None and not run.must_end:
        return Next(f"{run.trouble}I look at what is staged for me.", prose.look_at_inputs())
    return _next_step(run, _question(action))


def _question(action: Action) -> Question:
    """The task's first paragraph, with the words that the Root says to look for, if it does."""
    text = action.variables["task"].preview.split("\n\n")[0]
    question = read_question(text, "")
    context = action.variables.get("context")
    named = re.match(r"Look for: ([^\n]+)", context.preview) if context else None
    if named is None:
        return question
    words = tuple(word.strip() for word in named.group(1).split(",") if word.strip())
    return Question(question.text, "", words, question.compares)


def _next_step(run: Run, question: Question) -> Next:
    action = run.action
    readable = [document for document in read_survey(run.facts(prose.LOOK)).documents if document.readable]
    if run.must_end or not readable:
        return _submit(run, question)
    if run.wanted(prose.SEARCH):
        keep = 16 if len(readable) == 1 else 6
        reason = f"I rank passages by the words of the task: {question.topic or 'none, so I take the openings'}."
        numbers = [document.n for document in readable]
        return Next(run.trouble + reason, prose.search(_QUESTION, question.terms, numbers, keep))
    found = sum(bool(fact.get("passages")) for fact in run.facts(prose.SEARCH))
    if found and run.wanted(prose.ASK):
        per_document = max(min(MOST_PROMPTS, action.max_llm_calls - 1) // found, 1)
        reason = "I let the Sub model copy the sentences that bear on the task from the best passages."
        return Next(run.trouble + reason, prose.ask(per_document))
    if run.wanted(prose.VERIFY) and run.done(prose.SEARCH):
        asked = bool(run.done(prose.ASK))
        reason = "I look up every quote in the file and keep what is really there."
        return Next(run.trouble + reason, prose.verify(whole_passages=not asked, keep=asked))
    return _submit(run, question)


def _submit(run: Run, question: Question) -> Next:
    if run.done(prose.VERIFY) is None:
        lines = ["No quotes could be verified in the staged inputs."]
        return Next(f"{run.trouble}I have nothing verified to give.", submit_text(run.action.outputs, lines))
    code = submit_child(run.action.outputs, question.topic, most=20)
    return Next(f"{run.trouble}The quotes are verified; I hand them over as evidence.", code)
