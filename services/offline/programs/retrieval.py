"""Pieces that find passages in a text and quotes in a document."""

from __future__ import annotations

import math
import re
from collections import Counter


def stem(word: str) -> str:
    """Cut a word's ending, so that 'patents' meets 'patent' and 'licences' meets 'license'."""
    word = word.lower().replace("nce", "nse").replace("bility", "ble")
    for ending in re.findall(r"\w+", "ations ation ating ated ates ate ings ing ies ied ed es s ly e"):
        short = 4 if len(ending) > 2 else 3
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= short:
            word = word[: -len(ending)] + ("y" if ending in ("ies", "ied") else "")
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls" else word


def stems(text: str) -> list[str]:
    """The stems of all words of a text, in order."""
    return [stem(word) for word in re.findall(r"[^\W_]+", text)]


def holds(text: str, term: str) -> bool:
    """Whether a word of this stem is in a text."""
    likely = set(re.findall(rf"(?<![^\W_]){re.escape(term[:3])}[^\W_]*", text.lower()))
    return term in map(stem, likely)


def passages(text: str) -> list[tuple[int, int, str]]:
    """Paragraphs as (first line, last line, text), cut after 16 lines; frames of * and | are left out."""
    found: list[tuple[int, int, str]] = []
    block: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        plain = line.strip().strip("*|").strip()
        if plain:
            block.append(plain)
        if block and (not plain or len(block) == 16):
            last = number if plain else number - 1
            found.append((last - len(block) + 1, last, "\n".join(block)))
            block = []
    return found


def headings(text: str) -> list[tuple[int, str]]:
    """Lines that look like headings, as (line, title): numbered clauses, '#' marks, short lines on their own."""
    found, lines = [], ["", *(line.strip().strip("*|").strip() for line in text.splitlines()), ""]
    numbered = r"(\d{1,3}(?:\.\d{1,3})+\.?|\d{1,3}[.)]|§ ?\d+|(?:Section|Article|Chapter) \w+[.:]?)\s+(\W?[A-Z].*)"
    for number in range(1, len(lines) - 1):
        line, opens = lines[number], not lines[number - 1]
        clause = re.match(numbered, line) if opens else None
        alone = opens and set(lines[number + 1]) <= set("=-~")
        if clause:
            title = re.split(r"[.:;](?:\s|$)", clause[2])[0]
            found.append((number, clause[1] + (" " + title if len(title) <= 60 else "")))
        elif line.startswith("#"):
            found.append((number, line.lstrip("# ")[:60]))
        elif alone and 3 <= len(line) <= 60 and line[0].isupper() and line[-1] not in ".,;:!?\"'":
            found.append((number, line))
    return found


def heading_at(number: int, titles: list[tuple[int, str]]) -> str:
    """The heading in force on a line, or an empty text."""
    above = [title for line, title in titles if line <= number]
    return above[-1] if above else ""


def openings(text: str) -> list[tuple[float, int, int, str]]:
    """The first passage under each heading, scored alike, for a question that names no topic."""
    titles, found, seen = headings(text), [], set()
    for first, last, part in passages(text):
        title = heading_at(first, titles)
        if title not in seen and len(part.split()) > 12:
            found.append((1.0, first, last, part))
            seen.add(title)
    return found


def lead_in(number: int, paragraphs: list[tuple[int, int, str]]) -> str:
    """The words ending in a colon that a list item on a line goes on from, or an empty text."""
    above = [text for first, _, text in paragraphs if first <= number]
    if not above or not re.match(r"\(?\w{1,3}\) ", above[-1]):
        return ""
    before = next((text for text in reversed(above) if not re.match(r"\(?\w{1,3}\) ", text)), "")
    return re.split(r"(?<=[.;])\s", " ".join(before.split()))[-1][-300:] if before.endswith(":") else ""


def rank(paragraphs: list[tuple[int, int, str]], terms: list[str]) -> list[tuple[float, int, int, str]]:
    """Paragraphs that share a term with the question, best first, scored by BM25."""
    likely = [part for part in paragraphs if any(term[:3] in part[2].lower() for term in terms)]
    bags = [Counter(stems(text)) for _, _, text in likely]
    usual = sum(bag.total() for bag in bags) / max(len(bags), 1)
    seen = Counter(term for bag in bags for term in set(terms) & bag.keys())
    rare = {term: math.log(1 + (len(paragraphs) - n + 0.5) / (n + 0.5)) for term, n in seen.items()}
    scored = []
    for (first, last, text), bag in zip(likely, bags, strict=True):
        size = 1.2 * (0.25 + 0.75 * bag.total() / usual) if usual else 1.2
        score = sum(weight * bag[term] * 2.2 / (bag[term] + size) for term, weight in rare.items() if bag[term])
        if score > 0:
            scored.append((score, first, last, text))
    return sorted(scored, key=lambda item: (-item[0], item[1]))


def locate(quote: str, text: str) -> tuple[int, int] | None:
    """First and last line of a quote in a text, white space and frames aside; None when it isn't there."""
    words = quote.split()
    found = re.search(r"[\s*|]+".join(map(re.escape, words)), text) if words else None
    if found is None:
        return None
    return len((text[: found.start()] + "x").splitlines()), len(text[: found.end()].splitlines())
