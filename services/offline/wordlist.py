"""Word lists written as running text."""

from __future__ import annotations


def word_list(text: str) -> list[str]:
    """The words of a text in order."""
    return text.split()


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())
