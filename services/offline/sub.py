"""The offline model as Sub, or asked directly: answers from the text in the prompt by copying sentences."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from services.offline.compare import compare_documents, read_blocks
from services.offline.english import GREETING, content_stems, enumerates, sentences
from services.offline.programs.retrieval import stems

NOTE = "(offline model: rule-based extraction, not a language model)"
NOT_FOUND = "NOT FOUND"
MOST_SENTENCES = 12
LONGEST_QUOTE = 420

_QUESTION = re.compile(r"^(?:Question|Task|Query|Q):\s*(.+)$", re.MULTILINE)
_TEXT = re.compile(r"^(?:Text|Passage|Context|Document|Excerpt)\b[^\n:]*:[ \t]*\n?", re.MULTILINE)
_CLOSING = re.compile(r"\n\n(?:Copy|Answer|Quote|Reply|Say|Give|List|Return|Respond)\b[^\n]*\s*$")
_JOINING = frozenset(("a", "an", "and", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"))
_BLOCK = re.compile(r"^\[lines \d+-\d+\]$", re.MULTILINE)


@dataclass(frozen=True)
class Reading:
    """A prompt taken apart: what it asks, and the text to answer from."""

    question: str
    text: str


def answer_prompt(prompt: str) -> str:
    """The reply to a plain prompt, ending with a line that says who answers."""
    blocks = read_blocks(prompt)
    if len(blocks) > 1 and re.match(r"\s*compare\b", prompt, re.IGNORECASE):
        return "\n".join([*compare_documents(blocks), NOTE])
    reading = take_apart(prompt)
    if not reading.text:
        hello = "Hello. " if GREETING.match(prompt) else ""
        return (
            f"{hello}I can only copy from a text in the prompt, and there is none: put a question and a text.\n{NOTE}"
        )
    found = bearing_sentences(reading)
    return "\n".join([*(f'- "{quote}"' for quote in found), NOTE] if found else [NOT_FOUND, NOTE])


def take_apart(prompt: str) -> Reading:
    """Find the question and the text: by their labels, else the paragraph that asks and the rest."""
    named, text = _QUESTION.search(prompt), _TEXT.search(prompt)
    if named and text and text.start() >= named.end():
        return Reading(named.group(1).strip(), _CLOSING.sub("", prompt[text.end() :]).strip())
    parts = [part.strip() for part in re.split(r"\n\s*\n", prompt) if part.strip()]
    if named:
        rest = prompt[: named.start()] + prompt[named.end() :]
        return Reading(named.group(1).strip(), rest.strip())
    if len(parts) == 1:
        lines = parts[0].splitlines()
        parts = [lines[0], "\n".join(lines[1:])] if len(lines) > 1 else parts
    asking = next((i for i, part in enumerate(parts) if "?" in part and len(part) < 600), 0)
    if len(parts) == 1:
        return _one_paragraph(parts[0])
    return Reading(parts[asking], "\n\n".join(part for i, part in enumerate(parts) if i != asking))


def _one_paragraph(text: str) -> Reading:
    """A single line: a question, then text after a colon or in further sentences."""
    head, _, tail = text.partition(": ")
    if len(tail.split()) >= 6:
        return Reading(head, tail)
    pieces = sentences(text)
    asking = [piece for piece in pieces if piece.endswith("?")]
    rest = [piece for piece in pieces if not piece.endswith("?")]
    return Reading(" ".join(asking), " ".join(rest)) if asking and rest else Reading(text, "")


def bearing_sentences(reading: Reading) -> list[str]:
    """Sentences of the text that share the question's rarer words, in the order of the text."""
    candidates = [
        sentence
        for block in _BLOCK.split(reading.text)
        for part in re.split(r"\n\s*\n", block)
        for sentence in sentences(part)
        if not _is_title(sentence)
    ]
    terms = set(content_stems(reading.question))
    if not terms:
        return [_clip(sentence, terms) for sentence in candidates[:MOST_SENTENCES]]
    bags = [set(stems(sentence)) & terms for sentence in candidates]
    spread = Counter(term for bag in bags for term in bag)
    worth = {term: math.log(1 + len(bags) / count) for term, count in spread.items()}
    scores = [sum(worth[term] for term in sorted(bag)) for bag in bags]
    bar = 0.0 if enumerates(reading.question) else max(scores, default=0.0) * 0.5
    kept = sorted((i for i, score in enumerate(scores) if score and score >= bar), key=lambda i: (-scores[i], i))
    return list(dict.fromkeys(_clip(candidates[i], terms) for i in sorted(kept[:MOST_SENTENCES])))


def _is_title(sentence: str) -> bool:
    """Whether a sentence only names what follows: a word or two, or all but joining words are capitalised."""
    words = [word for word in re.findall(r"[A-Za-z]+", sentence) if word not in _JOINING]
    return len(words) < 2 or (len(words) <= 8 and all(word[0].isupper() for word in words))


def _clip(sentence: str, terms: set[str]) -> str:
    """A sentence of bearable length that still holds the first word that matters."""
    if len(sentence) <= LONGEST_QUOTE:
        return sentence
    at = next((m.start() for m in re.finditer(r"[^\W_]+", sentence) if set(stems(m.group())) & terms), 0)
    start = 0
    if at > LONGEST_QUOTE // 2:
        breaks = [m.end() for m in re.finditer(r"[,;:] ", sentence[: at - 40])]
        start = breaks[-1] if breaks else sentence.rfind(" ", 0, at - 40) + 1
    cut = sentence[start : start + LONGEST_QUOTE]
    return cut if start + LONGEST_QUOTE >= len(sentence) else cut.rpartition(" ")[0]
