"""An RLM whose inputs are neither a Root's nor a child's: the shortest text asks, the others are the documents."""

from __future__ import annotations

from services.offline.documents import read_survey
from services.offline.programs import documents as prose
from services.offline.programs.answering import SUBMIT, submit_answer, submit_text
from services.offline.prompt import Action
from services.offline.question import read_question
from services.offline.run import Next, Run

_QUESTIONS = ("question", "query", "q", "prompt", "instruction", "task")


def next_for_variables(action: Action) -> Next:
    """The next program for a signature of any inputs."""
    run = Run(action)
    named = [name for name in _QUESTIONS if name in action.variables]
    asking = named[0] if named else min(action.variables, key=lambda name: action.variables[name].length, default="")
    others = [name for name in action.variables if name != asking]
    if not others or run.given_up(prose.LOOK, 2) or run.failures(SUBMIT) >= 2:
        lines = ["I can't answer this: there is no text among the inputs that I could search."]
        return Next("There is nothing to search, so I say so.", submit_text(action.outputs, lines))
    question = read_question(action.variables[asking].preview, "")
    if run.done(prose.LOOK) is None and not run.must_end:
        return Next(f"{run.trouble}I look at the inputs first.", prose.look_at_variables(others))
    numbers = [document.n for document in read_survey(run.facts(prose.LOOK)).documents if document.readable]
    if not run.must_end and numbers:
        if run.wanted(prose.SEARCH):
            code = prose.search(asking, question.terms, numbers, 12)
            return Next(f"{run.trouble}I rank the passages by the words of the question.", code)
        found = any(fact.get("passages") for fact in run.facts(prose.SEARCH))
        if found and run.wanted(prose.ASK):
            code = prose.ask(max(min(action.max_llm_calls // len(numbers), 4), 1))
            return Next(f"{run.trouble}The Sub model copies the sentences that matter.", code)
        if run.done(prose.SEARCH) and run.wanted(prose.VERIFY):
            asked = bool(run.done(prose.ASK))
            return Next(f"{run.trouble}I verify every quote.", prose.verify(whole_passages=not asked, keep=asked))
    verified = run.done(prose.VERIFY) is not None
    remarks = [] if verified else ["I could not verify any quote from the inputs."]
    shown = numbers if verified else []
    code = submit_answer(action.outputs, numbers=shown, words=question.words, remarks=remarks)
    return Next(f"{run.trouble}I submit what is verified.", code)
