"""What the look step found: documents, their kinds, and what was said before."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_TABLES = {".csv": "read_csv", ".tsv": "read_csv", ".tab": "read_csv"}
_RECORDS = {".json": "read_json", ".jsonl": "read_json", ".ndjson": "read_json"}


@dataclass(frozen=True)
class Document:
    """One attached file: ``first`` holds its first lines, cut to 60 characters."""

    n: int
    file: str
    size: int
    lines: int
    first: tuple[str, ...]

    @property
    def reader(self) -> str | None:
        """The piece that may read it as a table, judged by name and first lines."""
        ending = re.search(r"\.\w+(?= \(\d+\)$|$)", self.file.lower())
        known = (_TABLES | _RECORDS).get(ending.group() if ending else "")
        tabbed = [line.count("\t") for line in self.first[:2]]
        return known or ("read_csv" if len(tabbed) == 2 and min(tabbed) > 0 else None)

    @property
    def readable(self) -> bool:
        """Whether it holds text."""
        return self.lines > 0


@dataclass(frozen=True)
class Survey:
    """Everything that the look step printed.

    Attributes:
        documents: The files in order.
        request: The request's text when it was too long for the prompt, else an empty text.
        earlier: The request of the Turn before, or an empty text.
        turns: Number of earlier Turns.
    """

    documents: tuple[Document, ...]
    request: str
    earlier: str
    turns: int


def read_survey(facts: Iterable[dict[str, Any]]) -> Survey:
    """Read the printed facts; unknown ones are skipped."""
    documents: list[Document] = []
    request, earlier, turns = "", "", 0
    for fact in facts:
        if "file" in fact:
            first = tuple(str(line) for line in fact["first"])
            documents.append(Document(int(fact["n"]), fact["file"], int(fact["bytes"]), int(fact["lines"]), first))
        request = str(fact.get("request", request))
        earlier = str(fact.get("last_request", earlier))
        turns = int(fact.get("earlier_turns", turns))
    return Survey(tuple(documents), request, earlier, turns)
