"""Compares quotes of several documents by what kind of statement each makes and which words only one uses."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from services.offline.english import STOP
from services.offline.programs.retrieval import stem

KINDS: tuple[tuple[str, str], ...] = (
    (
        "Grants or permits something",
        r"\b(?:hereby grants?|grants (?:to )?you|you may (?!not\b)|permits you|permission to|is allowed to)\b",
    ),
    ("Says when something ends", r"\b(?:terminat\w+|ceases?|revok\w+|expires?|no longer)\b"),
    ("Forbids something", r"\b(?:may not|must not|shall not|cannot|prohibit\w*|forbid\w*|not (?:be )?permitted)\b"),
    ("Requires something", r"\b(?:must(?! not)|shall(?! not)|required? to|obliged)\b"),
    (
        "Limits or excepts something",
        r"\b(?:except|unless|notwithstanding|limitations?|no \w+ (?:\w+ )?(?:is|are) granted|other than|only)\b",
    ),
    ("Defines a term", r"(?:\bmeans\b|\" (?:is|are) (?:any|all|the)\b|\bis defined\b)"),
    ("Speaks of lawsuits", r"\b(?:litigation|lawsuit|sue|counterclaim|cross-claim)\b"),
)
"""Kinds of statement with what gives them away; the wording of the answer never claims more than the match."""

_QUOTE = re.compile(r'^- line (\d+)(?: \[(.*?)\])?: "(.*)"$', re.MULTILINE)
MOST_WORDS = 6


@dataclass(frozen=True)
class Block:
    """The quotes of one document, as (line, heading, text)."""

    name: str
    quotes: tuple[tuple[int, str, str], ...]


def read_blocks(prompt: str) -> list[Block]:
    """The ``### name`` blocks of a prompt with their quotes."""
    pieces = re.split(r"^### (.+)$", prompt, flags=re.MULTILINE)
    named = zip(pieces[1::2], pieces[2::2], strict=True)
    return [
        Block(name.strip(), tuple((int(n), title, quote) for n, title, quote in _QUOTE.findall(text)))
        for name, text in named
    ]


def compare_documents(blocks: list[Block]) -> list[str]:
    """Lines that each start with '- ' and name documents and lines."""
    spoken = [block for block in blocks if block.quotes]
    silent = ", ".join(block.name for block in blocks if not block.quotes)
    counts = ", ".join(f"{block.name} {len(block.quotes)}" for block in spoken) or "none"
    lines = [f"- Sentences found: {counts}" + (f"; none in {silent}." if silent else ".")]
    for title, pattern in KINDS:
        lines += _kind_line(title, pattern, spoken)
    return lines + [line for block in spoken for line in _own_words(block, spoken)]


def _kind_line(title: str, pattern: str, blocks: list[Block]) -> list[str]:
    places = {}
    for block in blocks:
        found = [(line, title) for line, title, quote in block.quotes if re.search(pattern, quote, re.IGNORECASE)]
        if found:
            places[block.name] = _places(found)
    if not places:
        return []
    without = [block.name for block in blocks if block.name not in places]
    said = "; ".join(f"{name} ({where})" for name, where in places.items())
    return [f"- {title}: {said}" + (f"; not in the quotes from {', '.join(without)}." if without else ".")]


def _places(found: list[tuple[int, str]]) -> str:
    """Headings with their lines, at most three of each."""
    lines: dict[str, list[str]] = {}
    for line, title in sorted(set(found)):
        lines.setdefault(title, []).append(str(line))
    named = [(f"{title}, " if title else "") + _numbered(numbers[:3]) for title, numbers in lines.items()]
    return "; ".join(named[:3])


def _numbered(lines: list[str]) -> str:
    return f"lines {', '.join(lines[:-1])} and {lines[-1]}" if len(lines) > 1 else f"line {lines[0]}"


def _own_words(block: Block, blocks: list[Block]) -> list[str]:
    """Words that only one document's quotes use, most used first."""
    if len(blocks) < 2:
        return []
    others = {mark for other in blocks if other is not block for mark in _words(other)}
    own = {mark: found for mark, found in _words(block).items() if mark not in others}
    best = sorted(own.values(), key=lambda found: (-found[1], -len(found[0]), found[0]))[:MOST_WORDS]
    if not best:
        return []
    listed = ", ".join(f"{word} (line {line})" for word, _, line in best)
    return [f"- Words that only the quotes from {block.name} use: {listed}."]


def _words(block: Block) -> dict[str, tuple[str, int, int]]:
    """Longer content words by stem: (word, times used, first line)."""
    counts: Counter[str] = Counter()
    first: dict[str, tuple[str, int]] = {}
    for line, _, quote in block.quotes:
        for word in re.findall(r"[a-z]{6,}", quote.lower()):
            if word not in STOP:
                counts[stem(word)] += 1
                first.setdefault(stem(word), (word, line))
    return {mark: (word, counts[mark], line) for mark, (word, line) in first.items()}
