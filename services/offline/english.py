"""English words without content of their own, and how a question is cut into words."""

from __future__ import annotations

import re

from services.offline.programs.retrieval import stem
from services.offline.wordlist import word_set

STOP = word_set(
    """many several a about above after all also am an and any are as at be been before being below between both
    but by can could did do does doing during each either else etc ever every few for from had has have having
    he her here hers him his how i if in into is it its itself just like may me might more most much must my
    neither no nor not of off often on once one only or other our ours out over own per please same shall she
    should since so some such than that the their theirs them then there these they this those through to too
    under until up upon us very was we were what when where whether which while who whom whose why will with
    within without would yes yet you your yours whats im dont two three four five six s t re ll d m ve"""
)
"""Words that never say what a question is about."""

ASKING = word_set(
    """answer ask asked attach attached attachment attachments brief briefly compare compared comparison compute
    concerning contain contains content contents contrast count describe describes differ difference differences
    different discuss discusses document documents each explain explains file files find get give handle handles
    list look mean meant means mention mentions name note number outline overview point points question quote
    regarding related say saying says show shows something state stated states summarise summarize summary table
    tables tell tells text texts thing things topic treat treats versus vs word words detail details detailed main
    key provide provides know"""
)
"""Words that say how to answer, not what about; a table's own vocabulary takes precedence over them."""

COMPARING = re.compile(
    r"\b(differ\w*|compar\w+|contrast\w*|versus|vs|in common|similar\w*|unlike|distinguish\w*)\b", re.IGNORECASE
)
GREETING = re.compile(
    r"\s*(hi|hello|hey|good (morning|afternoon|evening|day)|thanks|thank you)\b[\s!.,]*", re.IGNORECASE
)
FOLLOWING_ON = re.compile(r"\s*(and|also|what about|how about|but|then|in that case)\b", re.IGNORECASE)
REFERRING = re.compile(r"\b(it|its|they|them|their|that one|those|the same)\b", re.IGNORECASE)

_DOCUMENT_NOUN = re.compile(
    r"\b(?:(?:these|those|the attached|both(?: the)?)\s+(?:\w+\s+){0,2}?(\w+s)|this\s+(\w+))\b", re.IGNORECASE
)


def content_words(text: str) -> list[str]:
    """The words that say what a question is about: in order, lower case, each stem once.

    The noun that stands for the documents themselves ("each of these licences") is left out.
    """
    nouns = {stem(match.group(1) or match.group(2)) for match in _DOCUMENT_NOUN.finditer(text)}
    found: dict[str, str] = {}
    for word in re.findall(r"[^\W_]+", text.lower().replace("'s ", " ")):
        mark = stem(word)
        if word not in STOP and word not in ASKING and mark not in nouns and (len(word) > 1 or word.isdigit()):
            found.setdefault(mark, word)
    return list(found.values())


def enumerates(text: str) -> bool:
    """Whether all content words of a question are one list, "warranty and liability", so that each counts alone."""
    words = content_words(text)
    if len(words) < 2:
        return False
    joined = r"\W+(?:(?:and|or|the)\W+){0,3}".join(map(re.escape, words))
    between = re.search(joined, text.lower())
    return between is not None and bool(re.search(r",|\band\b|\bor\b", between.group()))


def content_stems(text: str) -> list[str]:
    """The stems of :func:`content_words`."""
    return [stem(word) for word in content_words(text)]


def sentences(text: str) -> list[str]:
    """The sentences of a text, white space made single; abbreviations and clause numbers don't end one."""
    flat = " ".join(text.split())
    parts, start = [], 0
    for match in re.finditer(r"[.!?][\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])", flat):
        before = flat[max(start, match.start() - 12) : match.start() + 1]
        if re.search(r"(?:^|\s)(?:\(?\w{1,2}|\d+(?:\.\d+)*|e\.g|i\.e|etc|No|Sec|Art|Mr|Mrs|Ms|Dr|St|vs)\.$", before):
            continue
        parts.append(flat[start : match.end()].strip())
        start = match.end()
    return [part for part in [*parts, flat[start:].strip()] if part]
