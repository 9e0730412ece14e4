"""A clause of a question: its words, and which of them have been understood."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from services.offline.english import ASKING, STOP
from services.offline.programs.retrieval import stem
from services.offline.tables.profile import Column
from services.offline.tables.vocabulary import CONCEPTS, LARGEST, SMALLEST
from services.offline.wordlist import word_set

_SPLIT = re.compile(
    r"[?;!]+\s*|(?<=[a-z])\.\s+"
    r"|,?\s+(?:and|then|also)\s+(?=(?:in |on )?(?:which|what|how|when|where|who|list|give|compute|calculate|find)\b)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\d[\d,]*(?:\.\d+)?|[^\W\d_]+(?:'[^\W\d_]+)?|[<>]=?|=")
_FILLING = word_set(
    """many much number total overall altogether data dataset file table row record entry case happen occur fall fell
    value measure recorded record see saw seen experience there exactly least most day date"""
)


@dataclass
class Clause:
    """Words of a clause with their positions, stems and lower case.

    ``used`` holds the indices of words that have a meaning already.
    """

    text: str
    words: list[str] = field(init=False)
    starts: list[int] = field(init=False)
    stems: list[str] = field(init=False)
    lower: list[str] = field(init=False)
    used: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        matches = list(_WORD.finditer(self.text))
        self.words = [match.group() for match in matches]
        self.starts = [match.start() for match in matches]
        self.stems = [stem(word) for word in self.words]
        self.lower = [word.lower() for word in self.words]

    def use_span(self, start: int, end: int) -> None:
        """Mark the words that start within [start, end) of the text as understood."""
        self.used |= {index for index, at in enumerate(self.starts) if start <= at < end}

    def left_over(self, known: set[str]) -> list[str]:
        """Content words that nothing explains; ``known`` holds stems that need no explanation."""
        fillings = {stem(word) for word in _FILLING}
        return [
            word
            for index, word in enumerate(self.words)
            if index not in self.used
            and (word.lower() not in STOP | ASKING or (word.isupper() and len(word) > 1))
            and word.lower() not in LARGEST | SMALLEST
            and stem(word) not in known | fillings
            and len(word) > 1
        ]


def split_clauses(question: str) -> list[str]:
    """The clauses of a question that each ask for one thing."""
    parts = [part.strip(" ,.") for part in _SPLIT.split(" ".join(question.split()))]
    return [part for part in parts if len(part) > 2]


def meets(word: str, name: str) -> bool:
    """Whether a word of a question stands for a word of a column's name: same stem, or one abbreviates the other."""
    if word == name:
        return True
    short, long = sorted((word, name), key=len)
    return len(short) >= 3 and long.startswith(short) and (len(short) >= 4 or short in ("max", "min", "avg", "pop"))


@dataclass(frozen=True)
class ColumnMatch:
    """How well words of a clause name a column."""

    column: Column
    words: frozenset[int]
    share: float

    @property
    def order(self) -> tuple[float, int]:
        """Sort key: complete names first, longer names before shorter ones."""
        return (self.share, len(self.words))


def match_columns(clause: Clause, columns: tuple[Column, ...], *, within: range | None = None) -> list[ColumnMatch]:
    """Columns that unused words of a clause name, best first."""
    indices = [i for i in (range(len(clause.words)) if within is None else within) if i not in clause.used]
    found = []
    for column in columns:
        names = [name for name in column.words if name not in STOP or len(column.words) == 1]
        hits = {name: next((i for i in indices if meets(clause.stems[i], name)), None) for name in names}
        words = frozenset(i for i in hits.values() if i is not None and clause.lower[i] not in STOP)
        if words:
            found.append(ColumnMatch(column, words, sum(i is not None for i in hits.values()) / len(names)))
    return sorted(found, key=lambda match: match.order, reverse=True)


def concept_columns(concept: str, columns: tuple[Column, ...]) -> list[Column]:
    """Number columns whose name holds a word of the concept."""
    marks = {stem(word) for word in CONCEPTS[concept]}
    return [column for column in columns if column.type == "number" and marks & set(column.words)]


def concept_of(word: str) -> str | None:
    """The concept that a word names, or None."""
    return next((concept for concept, words in CONCEPTS.items() if stem(word) in {stem(w) for w in words}), None)
