"""The table part of a Root run: load, compute, check, and what to say of the results."""

from __future__ import annotations

from functools import cached_property

from services.offline.documents import Document
from services.offline.run import Next, Run
from services.offline.tables import computing
from services.offline.tables.planner import plan_question
from services.offline.tables.profile import Table, read_tables
from services.offline.tables.query import Plan
from services.offline.tables.vocabulary import US_STATES


class TableSteps:
    """Steps for the attached files that look like tables."""

    def __init__(self, run: Run, documents: list[Document], question: str, earlier: str) -> None:
        self._run, self._question, self._earlier = run, question, earlier
        self._readers = {document.n: document.reader for document in documents if document.reader}
        self._files = {document.n: document.file for document in documents}
        self.shared = len(self._readers) < len(documents)

    @property
    def rest(self) -> str | None:
        """What prose has to answer: the clauses that no table answers, None when that is the whole question."""
        refused = [plan.clause for plan in self.plans if not plan.queries]
        return None if len(refused) == len(self.plans) else "? ".join(refused)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The files that turned out to be tables."""
        facts = [*self._run.facts(computing.LOAD), *self._run.facts(computing.VALUES)]
        return read_tables(facts, self._files)

    @cached_property
    def plans(self) -> list[Plan]:
        """What to compute, clause by clause."""
        return plan_question(self._question, self.tables, self._earlier) if self.tables else []

    @property
    def numbers(self) -> set[int]:
        """Documents that are tables, or may be as long as none has been loaded."""
        if self._run.wanted(computing.LOAD):
            return set(self._readers)
        return {table.n for table in self.tables}

    def next(self) -> Next | None:
        """The next table step, or None when there is none left."""
        if not self._readers:
            return None
        if self._run.wanted(computing.LOAD):
            return self._load()
        if self._names_values and self._run.wanted(computing.VALUES):
            return self._find_values()
        if not any(plan.queries for plan in self.plans):
            return None
        by_number = {table.n: table for table in self.tables}
        if self._run.wanted(computing.COMPUTE):
            return Next(self._run.trouble + self._reasons(), computing.compute(self.plans, by_number))
        if self._run.done(computing.COMPUTE) and self._run.wanted(computing.CHECK):
            reason = (
                "There are figures. Before I trust them I compute each again from the raw cells, with exact decimals."
            )
            return Next(self._run.trouble + reason, computing.check(self.plans, by_number))
        return None

    def clauses(self) -> list[tuple[str, int, list[tuple[str, str]], list[str]]]:
        """For the answer: each clause that was computed, with its readings and notes."""
        if self._run.done(computing.COMPUTE) is None:
            return []
        named: dict[int, list[tuple[str, str]]] = {}
        for name, plan, query in computing.numbered(self.plans):
            named.setdefault(id(plan), []).append((name, query.reading))
        return [(p.clause.rstrip("?"), p.table, named[id(p)], list(p.notes)) for p in self.plans if p.queries]

    def remarks(self) -> list[str]:
        """Lines for the clauses that could not be understood, with what the tables hold."""
        refused = [plan for plan in self.plans if not plan.queries] if not self.shared else []
        lines = [f'I can\'t tell how to compute "{plan.clause}": {plan.notes[0]}.' for plan in refused]
        if self.plans and self._run.done(computing.COMPUTE) is None and not refused:
            lines.append("The figures could not be computed.")
        return lines + [line for table in self.tables if lines for line in _overview(table)]

    def _load(self) -> Next:
        listed = ", ".join(self._files[n] for n in self._readers)
        reason = f"{listed}: this looks like data in rows. I read it and see what its columns hold."
        readers = {n: reader for n, reader in self._readers.items() if reader}
        return Next(self._run.trouble + reason, computing.load(readers))

    @property
    def _names_values(self) -> bool:
        """Whether words of the question are not explained by columns, so that they may be values."""
        texts = any(column.type == "text" for table in self.tables for column in table.columns)
        return texts and any(plan.open_words for plan in self.plans)

    def _find_values(self) -> Next:
        words = ", ".join(dict.fromkeys(word for plan in self.plans for word in plan.open_words))
        reason = f"No column explains these words: {words}. They may be values, so I look for them in the text columns."
        lowered = self._question.lower()
        codes = {
            self._question[at : at + len(name)]: code
            for name, code in ((state.replace("-", " "), code) for state, code in US_STATES.items())
            if (at := lowered.find(name)) >= 0
        }
        expression = 'history[-1]["request"] + " " + request' if self._earlier else "request"
        return Next(self._run.trouble + reason, computing.find_values(expression, codes))

    def _reasons(self) -> str:
        said = []
        for plan in self.plans:
            if plan.queries:
                said.append(f'"{plan.clause}" means {", and also ".join(query.reading for query in plan.queries)}.')
            else:
                said.append(f'I can\'t tell what "{plan.clause}" asks of this table.')
        return " ".join(said)


def _overview(table: Table) -> list[str]:
    """What a table holds, in a few lines."""
    kinds = []
    for column in table.columns[:24]:
        between = f" from {column.low} to {column.high}" if column.low else f" with {column.distinct} values"
        kinds.append(f"{column.name} ({column.type}{between})")
    more = f" and {len(table.columns) - 24} more" if len(table.columns) > 24 else ""
    return [f"- {table.file} has {table.rows} rows with the columns {', '.join(kinds)}{more}."]
