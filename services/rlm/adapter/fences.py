"""Finds the Python code in a reply's code field, whatever fence a model puts around it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from services.rlm.adapter.python_source import compiles, scan

_OPENING = re.compile(r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<tag>[\w.+#-]*)[^\n`]*$", re.MULTILINE)
_ONE_LINE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?:(?P<tag>[\w.+#-]+)[ \t]+)?(?P<code>[^\n]*?)[ \t]*(?P=fence)[ \t]*$",
    re.MULTILINE,
)
_PYTHON_TAG = re.compile(r"^(?:i?python[\d.]*|py\d*|repl|tool[_-]code|code)$", re.IGNORECASE)
_COMPLETED = re.compile(r"^[ \t]*\[\[ ## completed ## \]\][ \t]*$", re.MULTILINE)
_MARKER = re.compile(r"^[ \t]*\[\[ ## \w+ ## \]\]", re.MULTILINE)
_MOST_ENDS = 64
_NOTHING = frozenset({"", "none", "null"})


class CodeError(ValueError):
    """The code field holds no program; the message says why, for the model, without its text."""


@dataclass(frozen=True)
class _Block:
    tag: str
    code: str
    end: int
    closed: bool


def extract(text: str) -> str:
    """Return the program in `text`, which is a reply from its code field's marker on.

    Raises:
        CodeError: there is none, or it was cut off.
    """
    code = _unfenced_program(text)
    if code is None:
        blocks = list(_blocks(text))
        code = _joined(blocks) if blocks else _before_markers(text)
    code = _dedented(code)
    if code.strip().lower() in _NOTHING:
        raise CodeError("the code field is empty")
    return code


def _unfenced_program(text: str) -> str | None:
    """The part of `text` up to a marker line, or all of it, when that is a program as it stands."""
    ends = [match.start() for match in _MARKER.finditer(text)][:_MOST_ENDS]
    for end in [*ends, len(text)]:
        candidate = text[:end].strip("\r\n")
        if candidate.strip() and compiles(_dedented(candidate)):
            return candidate
    return None


def _before_markers(text: str) -> str:
    """The text up to the end marker that is no part of a string, for the sandbox to say what is wrong with it."""
    for match in _COMPLETED.finditer(text):
        if not scan(text[: match.start()])[1]:
            return text[: match.start()].strip("\r\n")
    return text.strip("\r\n")


def _blocks(text: str) -> Iterator[_Block]:
    position = 0
    while True:
        one_line, opening = _ONE_LINE.search(text, position), _OPENING.search(text, position)
        starts = [match.start() for match in (one_line, opening) if match]
        if not starts or _ended_before(text, position, min(starts)):
            return
        if one_line and one_line["code"].strip("`~ ") and one_line.start() == min(starts):
            block = _one_line_block(one_line)
        elif opening:
            block = _block(text, opening)
        else:
            return
        yield block
        position = block.end


def _ended_before(text: str, position: int, start: int) -> bool:
    return _COMPLETED.search(text, position, start) is not None


def _one_line_block(match: re.Match[str]) -> _Block:
    tag, code = match["tag"] or "", match["code"]
    if tag and not _PYTHON_TAG.match(tag):
        tag, code = "", f"{tag} {code}"  # the first word of the code itself
    elif not tag and (glued := re.match(r"(?i)(?:python|py)(?=\W)", code)) and not compiles(code):
        code = code[glued.end() :].strip()
    return _Block(tag, code, match.end(), closed=True)


def _block(text: str, opening: re.Match[str]) -> _Block:
    start, fence = opening.end() + 1, opening["fence"]
    if not opening["tag"] and (nested := _nested(text, start, fence)):
        return nested
    closings = _closings(text, start, fence)
    for end, after in closings:
        if compiles(_dedented(text[start:end])):
            return _Block(opening["tag"], text[start:end], after, closed=True)
    for end, after in closings:
        if not scan(text[start:end])[1]:
            return _Block(opening["tag"], text[start:end], after, closed=True)
    return _unclosed(text, start, opening["tag"])


def _nested(text: str, start: int, fence: str) -> _Block | None:
    """A fenced block directly inside a bare fence, which is only decoration."""
    inner = re.compile(r"\s*(?=^[ \t]*(?:`{3,}|~{3,})[ \t]*\w)", re.MULTILINE).match(text, start)
    opening = _OPENING.match(text, inner.end()) if inner else None
    if opening is None or not _PYTHON_TAG.match(opening["tag"]):
        return None
    block = _block(text, opening)
    closing = re.compile(rf"\s*^[ \t]*{re.escape(fence[0])}{{3,}}[ \t]*$", re.MULTILINE).match(text, block.end)
    return _Block(block.tag, block.code, closing.end() if closing else block.end, block.closed)


def _closings(text: str, start: int, fence: str) -> list[tuple[int, int]]:
    """Where a block may end: (end of its code, end of its fence), lines of the fence alone first."""
    mark, length = re.escape(fence[0]), len(fence)
    alone = re.compile(rf"^[ \t]*{mark}{{{length},}}[ \t]*(?:\[\[ ## completed ## \]\][ \t]*)?$", re.MULTILINE)
    glued = re.compile(rf"{mark}{{{length},}}[ \t]*$", re.MULTILINE)
    found = [(match.start(), match.end()) for match in alone.finditer(text, start)]
    ends = {after for _, after in found}
    found += [(match.start(), match.end()) for match in glued.finditer(text, start) if match.end() not in ends]
    return found[:_MOST_ENDS]


def _unclosed(text: str, start: int, tag: str) -> _Block:
    """A block without its closing fence: whole when the reply goes on to its end marker, else cut off."""
    for match in _COMPLETED.finditer(text, start):
        if compiles(_dedented(text[start : match.start()])):
            return _Block(tag, text[start : match.start()], match.end(), closed=True)
    return _Block(tag, text[start:], len(text), closed=False)


def _joined(blocks: list[_Block]) -> str:
    tagged = [block for block in blocks if _PYTHON_TAG.match(block.tag)]
    chosen = tagged or [block for block in blocks if not block.tag]
    if not chosen:
        raise CodeError(f"the code block is marked {blocks[0].tag[:20]!r}, but Python is needed")
    if not all(block.closed for block in chosen):
        raise CodeError("the code block has no end: the reply was cut off")
    return "\n".join(_dedented(block.code).strip("\r\n") for block in chosen)


def _dedented(code: str) -> str:
    if code[:1] not in " \t\r\n" or compiles(code):
        return code
    dedented = textwrap.dedent(code)
    return dedented if compiles(dedented) else code
