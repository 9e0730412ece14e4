"""Makes three back-ticks in a program harmless: DSPy cuts code at the first three that it finds."""

from __future__ import annotations

import ast

from services.rlm.adapter.python_source import Piece, parse, scan

FENCE = "```"


class BackticksRemainError(ValueError):
    """The program holds three back-ticks in a place where they can't be written otherwise."""


def harmless(code: str) -> str:
    """Return a program without three back-ticks in a row that means the same as `code`.

    A string that holds them is written as two strings side by side, which Python joins when it compiles.

    Raises:
        BackticksRemainError: there is no such program by these means.
    """
    if FENCE not in code:
        return code
    pieces, _ = scan(code)
    rewritten = "".join(_rewritten(code, piece) for piece in _complete(pieces, len(code)))
    program = parse(code)
    if FENCE in rewritten or (program is not None and not _same(program, parse(rewritten))):
        raise BackticksRemainError("three back-ticks in a row can't be written otherwise here")
    return rewritten


def _complete(pieces: list[Piece], length: int) -> list[Piece]:
    """The pieces with the quotes and braces between them, which hold no back-ticks, as pieces of code."""
    complete, position = [], 0
    for piece in pieces:
        if piece.start > position:
            complete.append(Piece("code", position, piece.start))
        complete.append(piece)
        position = piece.end
    return [*complete, Piece("code", position, length)]


def _rewritten(code: str, piece: Piece) -> str:
    text = code[piece.start : piece.end]
    if FENCE not in text:
        return text
    if piece.kind == "comment":
        return text.replace("`", "'")
    if piece.kind == "code":
        # Not Python in any case: it stays an error, which the sandbox reports, and does not become a shorter program.
        return text.replace(FENCE, "`` `")
    if not piece.splittable:
        return text if "r" in piece.prefix.lower() else text.replace(FENCE, r"``\x60")
    return text.replace(FENCE, f"``{piece.quote} {piece.prefix}`")


def _same(one: ast.Module, other: ast.Module | None) -> bool:
    return other is not None and ast.dump(one) == ast.dump(other)
