"""What a request asks about prose: its topic, and whether it compares or leans on an earlier request."""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.offline.english import COMPARING, FOLLOWING_ON, REFERRING, content_words
from services.offline.programs.retrieval import stem

MOST_TERMS = 24
_SUM = re.compile(
    r"(?:what(?:'s| is)|compute|calculate|how much is)?\s*([-+*/(). \d]{3,80}?)\s*[=?]*\s*", re.IGNORECASE
)


@dataclass(frozen=True)
class Question:
    """A request as the offline model reads it.

    Attributes:
        text: The request.
        earlier: The request before it that it leans on, or an empty text.
        words: Its content words; empty when it names no topic.
        compares: Whether it asks how documents differ or what they share.
    """

    text: str
    earlier: str
    words: tuple[str, ...]
    compares: bool

    @property
    def terms(self) -> list[str]:
        """Stems to look for."""
        return list(dict.fromkeys(stem(word) for word in self.words))

    @property
    def topic(self) -> str:
        """The content words for a reader."""
        return ", ".join(f"'{word}'" for word in self.words)

    def expression(self) -> str:
        """The Python expression of the question in a Root's program."""
        return 'history[-1]["request"] + " " + request' if self.earlier else "request"


def read_question(text: str, earlier: str) -> Question:
    """Read a request; ``earlier`` is the request before it, used only when this one leans on it."""
    words = content_words(text)
    leans = bool(earlier) and (
        not words or bool(FOLLOWING_ON.match(text)) or (len(words) < 3 and bool(REFERRING.search(text)))
    )
    if leans:
        words = content_words(f"{earlier} {text}")
    return Question(text, earlier if leans else "", tuple(words[:MOST_TERMS]), bool(COMPARING.search(text)))


def arithmetic(text: str) -> str | None:
    """The expression of a request that only asks for a sum of plain numbers, without powers; None otherwise."""
    match = _SUM.fullmatch(text.strip())
    expression = match.group(1).strip() if match else ""
    plain = re.search(r"\d\s*[-+*/]\s*[\d(]", expression) and "**" not in expression and "//" not in expression
    if not plain:
        return None
    try:
        compile(expression, "<request>", "eval")
    except SyntaxError:
        return None
    return expression
