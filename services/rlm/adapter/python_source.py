"""A scanner of Python source that knows strings, f-strings and comments, also in source that does not compile."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from services.common.python_syntax import parse_python

Kind = Literal["code", "comment", "string"]

_STRING = re.compile(r"(?i)(?P<prefix>[rbuft]{0,3})(?P<quote>'''|\"\"\"|'|\")")
_PREFIXES = frozenset({"", "r", "b", "u", "f", "t", "br", "rb", "fr", "rf", "tr", "rt"})
_NAME = re.compile(r"\w+")
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class Piece:
    """A stretch of source.

    Attributes:
        kind: plain code, a comment, or text that belongs to a string and is not code.
        start: index of its first character.
        end: index after its last character.
        prefix: a string's prefix and opening quote, such as `rb'''`.
        splittable: whether the string may be closed and opened again inside this piece.
    """

    kind: Kind
    start: int
    end: int
    prefix: str = ""
    splittable: bool = True

    @property
    def quote(self) -> str:
        """A string's quote."""
        return self.prefix.lstrip("rRbBuUfFtT")


def compiles(source: str) -> bool:
    """Return whether `source` is a Python program."""
    return parse(source) is not None


def parse(source: str) -> ast.Module | None:
    """Return the program that `source` is, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return parse_python(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def scan(source: str) -> tuple[list[Piece], bool]:
    """Return the pieces of `source` in order, and whether it ends inside a string."""
    scanner = _Scanner(source)
    pieces = list(scanner.code(0, nested=False))
    return pieces, scanner.unterminated


class _Scanner:
    def __init__(self, source: str) -> None:
        self.source = source
        self.position = 0
        self.unterminated = False

    def code(self, start: int, *, nested: bool) -> Iterator[Piece]:
        """Pieces from `start`; a nested expression of an f-string ends at its `}`, `:` or `!`."""
        source, begin, depth = self.source, start, 0
        self.position = start
        while self.position < len(source):
            character = source[self.position]
            if character == "#":
                yield from self._plain(begin)
                begin = self._line_end()
                yield Piece("comment", self.position, begin)
                self.position = begin
                continue
            opening = _STRING.match(source, self.position)
            if opening and opening["prefix"].lower() in _PREFIXES:
                yield from self._plain(begin)
                yield from self._string(opening)
                begin = self.position
                continue
            if nested and depth == 0 and self._expression_ends(character):
                break
            depth += (character in _OPEN) - (character in _CLOSE)
            self.position = self._next()
        yield from self._plain(begin)

    def _next(self) -> int:
        # A name is passed as a whole, so that its last letters are not taken for a string's prefix.
        name = _NAME.match(self.source, self.position)
        if name and not _STRING.match(self.source, self.position):
            return name.end()
        return self.position + 1

    def _plain(self, begin: int) -> Iterator[Piece]:
        if self.position > begin:
            yield Piece("code", begin, self.position)

    def _line_end(self) -> int:
        end = self.source.find("\n", self.position)
        return len(self.source) if end < 0 else end

    def _expression_ends(self, character: str) -> bool:
        if character in "}:":
            return True
        return character == "!" and self.source[self.position + 1 : self.position + 2] != "="

    def _string(self, opening: re.Match[str]) -> Iterator[Piece]:
        prefix, quote = opening["prefix"] + opening["quote"], opening["quote"]
        formatted = any(letter in "fFtT" for letter in opening["prefix"])
        begin = self.position = opening.end()
        source = self.source
        while self.position < len(source):
            if source.startswith(quote, self.position):
                yield Piece("string", begin, self.position, prefix)
                self.position += len(quote)
                return
            character = source[self.position]
            if character == "\\":
                self.position += 2
            elif character == "\n" and len(quote) == 1:
                break
            elif formatted and character == "{" and not source.startswith("{{", self.position):
                yield Piece("string", begin, self.position, prefix)
                yield from self._field(prefix, quote)
                begin = self.position
            else:
                self.position += 2 if formatted and source.startswith(("{{", "}}"), self.position) else 1
        self.position = min(self.position, len(source))
        yield Piece("string", begin, self.position, prefix)
        self.unterminated = self.unterminated or len(quote) == 3

    def _field(self, prefix: str, quote: str) -> Iterator[Piece]:
        """A replacement field `{expression!r:spec}` and what it holds."""
        yield from self.code(self.position + 1, nested=True)
        while self.position < len(self.source) and self.source[self.position] not in ":}":
            self.position += 1
        if self.source.startswith(":", self.position):
            yield from self._specification(prefix, quote)
        if self.source.startswith("}", self.position):
            self.position += 1

    def _specification(self, prefix: str, quote: str) -> Iterator[Piece]:
        self.position += 1
        begin = self.position
        while self.position < len(self.source) and self.source[self.position] != "}":
            if self.source.startswith(quote, self.position):
                break
            if self.source[self.position] == "{":
                yield Piece("string", begin, self.position, prefix, splittable=False)
                yield from self._field(prefix, quote)
                begin = self.position
            else:
                self.position += 1
        yield Piece("string", begin, self.position, prefix, splittable=False)
