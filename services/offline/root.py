"""The offline model as Root: writes the next program from what the steps so far have shown."""

from __future__ import annotations

import re

from services.offline.documents import Document, Survey, read_survey
from services.offline.english import FOLLOWING_ON, GREETING, enumerates
from services.offline.programs import documents as prose
from services.offline.programs.answering import SUBMIT, submit_answer, submit_sum, submit_text
from services.offline.programs.compose import literal
from services.offline.prompt import Action
from services.offline.question import Question, arithmetic, read_question
from services.offline.run import Next, Run
from services.offline.table_steps import TableSteps

MOST_LOSSES = 2
_ASKS_HISTORY = re.compile(
    r"\b(?:my|your|our|the) (?:first|last|previous|earlier) (?:question|answer|request|message|turn)s?\b"
    r"|\bdid (?:I|we) (?:ask|say)\b|\bwhat have (?:I|we) \w+",
    re.IGNORECASE,
)


def next_for_root(action: Action) -> Next:
    """The next program of a Root run."""
    run = Run(action)
    if run.losses > MOST_LOSSES or run.given_up(prose.LOOK, 2) or run.failures(SUBMIT) >= 2:
        reason = "The steps that look at the attachments failed, so I can't answer from them."
        return Next("Nothing I tried worked; I say so instead of guessing.", submit_text(action.outputs, [reason]))
    if run.done(prose.LOOK) is None and not run.must_end:
        return _look(run)
    return RootSteps(run).next()


def _look(run: Run) -> Next:
    names = run.action.variables
    code = prose.look_at_attachments(
        history="history" in names,
        attachments="attachments" in names,
        long_request=names["request"].length > len(names["request"].preview),
    )
    again = "The sandbox lost its state, so I start over. " if run.losses else ""
    return Next(f"{again}{run.trouble}I look at what is attached before reading any of it.", code)


class RootSteps:
    """Chooses the step that follows from the survey and the results so far."""

    def __init__(self, run: Run) -> None:
        self.run, self.action = run, run.action
        self.survey: Survey = read_survey(run.facts(prose.LOOK))
        text = self.survey.request or self.action.variables["request"].preview
        self.question: Question = read_question(text, self.survey.earlier)
        self.documents = [document for document in self.survey.documents if document.readable]
        self.tables = TableSteps(run, self.documents, text, self.survey.earlier if FOLLOWING_ON.match(text) else "")
        self.rest = self.tables.rest
        self.expression = self.question.expression() if self.rest is None else literal(self.rest)
        if self.rest is not None:
            self.question = read_question(self.rest, "")

    def next(self) -> Next:
        """The next step."""
        if self.run.must_end:
            return self._submit("This is the last step that I may take, so I submit what there is.")
        text = self.question.text
        if not self.documents or arithmetic(text) or GREETING.fullmatch(text):
            return self._without_documents()
        step = self.tables.next()
        if step is not None:
            return step
        return self._next_for_prose() or self._submit("Everything that could be checked has been; I submit the answer.")

    @property
    def prose(self) -> list[Document]:
        """Documents to be read as text; none when tables answer everything."""
        numbers = self.tables.numbers
        return [document for document in self.documents if document.n not in numbers] if self.rest != "" else []

    def _next_for_prose(self) -> Next | None:
        if not self.prose:
            return None
        if self._uses_children and self.run.wanted(prose.CHILDREN):
            return self._ask_children()
        left = self._unanswered()
        if left and self.run.wanted(prose.SEARCH):
            return self._search(left)
        if left and self.run.done(prose.SEARCH) and self._found and self.run.wanted(prose.ASK):
            return self._ask()
        if self.run.wanted(prose.VERIFY) and (self.run.done(prose.SEARCH) or self.run.done(prose.CHILDREN)):
            return self._verify()
        if self._compares and self.run.wanted(prose.COMPARE):
            reason = "The quotes stand; I ask the Sub model, once, how the documents differ, from these quotes alone."
            return Next(self.run.trouble + reason, prose.compare())
        return None

    @property
    def _uses_children(self) -> bool:
        return (len(self.prose) > 1 and self.action.max_children > 0 and self.action.left >= 4) or bool(
            self.run.done(prose.CHILDREN)
        )

    def _groups(self) -> list[list[int]]:
        count = min(len(self.prose), self.action.max_children)
        numbers = [document.n for document in self.prose]
        size, extra = divmod(len(numbers), count)
        groups, at = [], 0
        for index in range(count):
            end = at + size + (index < extra)
            groups.append(numbers[at:end])
            at = end
        return groups

    def _ask_children(self) -> Next:
        groups = self._groups()
        listed = ", ".join(f"{document.file} ({document.lines} lines)" for document in self.prose[:8])
        reason = (
            f"{len(self.prose)} texts are attached: {listed}. They are independent of each other, so {len(groups)} "
            f"children read them side by side, each its own; {self.action.max_children} are allowed."
        )
        context = f"Look for: {', '.join(self.question.words)}" if self.question.words else ""
        return Next(
            self.run.trouble + reason,
            prose.ask_children(self.expression, groups, context, self.action.children_parameter),
        )

    def _unanswered(self) -> list[int]:
        """Documents that no child has answered for."""
        answered: set[int] = set()
        for fact in self.run.facts(prose.CHILDREN):
            if fact.get("status") == "completed":
                answered |= set(fact["documents"])
        return [document.n for document in self.prose if document.n not in answered]

    def _search(self, numbers: list[int]) -> Next:
        topic = self.question.topic or "no particular topic, so I take the openings"
        reason = f"I rank the passages of {len(numbers)} document(s) by the question's own words: {topic}."
        keep = 16 if len(numbers) == 1 else 6
        code = prose.search(self.expression, self.question.terms, numbers, keep)
        return Next(self.run.trouble + reason, code)

    @property
    def _found(self) -> bool:
        return any(fact.get("passages") for fact in self.run.facts(prose.SEARCH))

    def _ask(self) -> Next:
        searched = max(len([fact for fact in self.run.facts(prose.SEARCH) if fact.get("passages")]), 1)
        per_document = max(min((self.action.max_llm_calls - 1) // searched, 4), 1)
        reason = "The Sub model reads the candidates in chunks, all at once, and copies the sentences that matter."
        return Next(self.run.trouble + reason, prose.ask(per_document))

    def _verify(self) -> Next:
        children, asked = bool(self.run.done(prose.CHILDREN)), bool(self.run.done(prose.ASK))
        searched = bool(self.run.done(prose.SEARCH))
        reason = (
            "What was quoted is only evidence; I look every quote up in the document itself and keep what is there."
        )
        code = prose.verify(children=children, whole_passages=searched and not asked, keep=asked)
        return Next(self.run.trouble + reason, code)

    @property
    def _compares(self) -> bool:
        evidence = any(fact.get("evidence") for fact in self.run.facts(prose.VERIFY))
        return self.question.compares and len(self.prose) > 1 and evidence

    def _without_documents(self) -> Next:
        text = self.question.text
        expression = arithmetic(text)
        if expression is not None:
            return Next("A sum of plain numbers: Python computes it.", submit_sum(self.action.outputs, expression))
        if GREETING.match(text):
            lines = ["Hello. Attach documents or tables and ask about them; I find passages, count and compute."]
        elif self.survey.documents:
            lines = ["What is attached holds no text that I can read; I work on text and tables."]
        else:
            lines = [
                "I can't answer this: nothing is attached and there are no earlier turns to look in.",
                "I know nothing by myself. Attach documents or tables and ask about them.",
            ]
        return Next(
            "Nothing is attached that could be read, so I say what I can do.", submit_text(self.action.outputs, lines)
        )

    def _submit(self, reason: str) -> Next:
        verified = self.run.done(prose.VERIFY) is not None
        remarks = self.tables.remarks()
        skipped = [document.file for document in self.survey.documents if not document.readable]
        if skipped:
            remarks.append(f"Not read, because they hold no text: {', '.join(skipped[:8])}.")
        clauses = self.tables.clauses()
        if not verified and self.prose:
            remarks.append("I ran out of steps or of working tools before I could verify quotes from the documents.")
        if not (verified or clauses or remarks):
            remarks.append("I ran out of steps before I could find anything.")
        code = submit_answer(
            self.action.outputs,
            clauses=clauses,
            numbers=[document.n for document in self.prose] if verified else [],
            words=self.question.words,
            each=len(self.question.words) < 2 or self.question.compares or enumerates(self.rest or self.question.text),
            comparison=self.run.done(prose.COMPARE) is not None,
            remarks=remarks,
        )
        return Next(self.run.trouble + reason, code)
