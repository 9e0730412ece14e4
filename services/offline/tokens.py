"""Token counts of the offline model.

The offline model has no tokenizer. It counts tokens by a fixed estimate that is within some 10-20 % of common
byte-pair encodings on English text and code: one token for every started four UTF-8 bytes, and four tokens of framing
for each message. The figures are honest counts of this unit, not of any provider's.
"""

from __future__ import annotations

from collections.abc import Iterable

BYTES_PER_TOKEN = 4
MESSAGE_OVERHEAD = 4


def count_tokens(text: str) -> int:
    """Tokens of one text: UTF-8 bytes divided by four, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def count_prompt(contents: Iterable[str]) -> int:
    """Tokens of a whole prompt: the texts of its messages and their framing."""
    return sum(MESSAGE_OVERHEAD + count_tokens(content) for content in contents)


def cut_to_tokens(text: str, limit: int) -> str:
    """The longest prefix of ``text`` that counts at most ``limit`` tokens."""
    raw = text.encode("utf-8", "surrogatepass")
    return raw[: max(limit, 0) * BYTES_PER_TOKEN].decode("utf-8", "ignore")
