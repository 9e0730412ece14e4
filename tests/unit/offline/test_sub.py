"""The Sub model: copies sentences that bear on a question, or says that there are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.offline.english import content_words, sentences
from services.offline.programs.retrieval import headings, lead_in, locate, openings, passages, rank, stem, stems
from services.offline.question import arithmetic, read_question
from services.offline.sub import NOT_FOUND, NOTE, answer_prompt

TEXT = "The ferry leaves at nine. It carries cars.\nDogs travel free of charge. The crossing takes two hours."


@pytest.mark.parametrize(
    "prompt",
    [
        f"Question: When does the ferry leave?\n\nText from timetable.txt:\n{TEXT}\n\nCopy the sentences that matter.",
        f"When does the ferry leave?\n\n{TEXT}",
        f"{TEXT}\n\nQuestion: When does the ferry leave?",
        f"When does the ferry leave?\n{TEXT}",
        f"When does the ferry leave? {' '.join(TEXT.split())}",
        f"Find when the ferry leaves: {' '.join(TEXT.split())}",
    ],
)
def test_it_copies_the_sentence_that_answers(prompt: str) -> None:
    assert answer_prompt(prompt) == f'- "The ferry leaves at nine."\n{NOTE}'


def test_it_says_when_nothing_matches() -> None:
    assert answer_prompt(f"Question: Who owns the harbour?\n\nText:\n{TEXT}") == f"{NOT_FOUND}\n{NOTE}"


def test_without_a_text_it_says_what_it_needs() -> None:
    assert answer_prompt("hello").startswith("Hello. I can only copy from a text in the prompt")
    assert "there is none" in answer_prompt("Who wrote Faust?")


def test_rarer_words_weigh_more() -> None:
    text = "The boat is red. The boat is blue. The boat sails at dawn with a red pennant."
    assert answer_prompt(f"Question: Which boat flies a pennant?\n\nText:\n{text}").startswith(
        '- "The boat sails at dawn'
    )


def test_long_sentences_keep_the_words_that_matter() -> None:
    long = "The parties, " + ", ".join(f"clause {k} of the annex" for k in range(60)) + ", share the royalty equally."
    reply = answer_prompt(f"Question: Who gets the royalty?\n\nText:\n{long}")
    quote = reply.splitlines()[0].removeprefix('- "').removesuffix('"')
    assert "royalty" in quote
    assert len(quote) <= 420
    assert locate(quote, long) == (1, 1)


def test_a_comparison_names_documents_sections_and_lines() -> None:
    prompt = (
        "Compare the documents. Question: How do they differ on refunds?\n\n"
        '### a.txt\n- line 3 [2. Refunds]: "You may return goods within ten days."\n'
        '- line 9 [4. End]: "This right expires in May."\n\n'
        '### b.txt\n- line 1 []: "Goods must not be returned."\n\n### c.txt\n(nothing found)\n\nSay it in short points.'
    )
    lines = answer_prompt(prompt).splitlines()
    assert lines[0] == "- Sentences found: a.txt 2, b.txt 1; none in c.txt."
    assert "- Grants or permits something: a.txt (2. Refunds, line 3); not in the quotes from b.txt." in lines
    assert "- Says when something ends: a.txt (4. End, line 9); not in the quotes from b.txt." in lines
    assert "- Forbids something: b.txt (line 1); not in the quotes from a.txt." in lines
    assert lines[-1] == NOTE


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("patents patent patented", True),
        ("licence license licences licensed", True),
        ("terminate terminates termination terminated", True),
        ("party parties", True),
        ("run running", True),
        ("class classes", True),
        ("party part", False),
        ("day days", True),
    ],
)
def test_stems(words: str, same: bool) -> None:
    assert (len({stem(word) for word in words.split()}) == 1) is same


@given(st.lists(st.sampled_from(["", "  ", "one two", "three.", "# four"]), max_size=60))
def test_passages_cover_every_line_once_and_in_order(lines: list[str]) -> None:
    text = "\n".join(lines)
    found = passages(text)
    covered = [number for first, last, _ in found for number in range(first, last + 1)]
    assert covered == [number for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    assert all(last - first < 16 for first, last, _ in found)


@given(st.lists(st.text("ab c\n", min_size=1, max_size=12), min_size=1, max_size=20), st.data())
def test_a_piece_of_a_text_is_found_where_it_stands(parts: list[str], data: st.DataObject) -> None:
    text = " ".join(parts)
    words = text.split()
    if not words:
        return
    start = data.draw(st.integers(0, len(words) - 1))
    quote = " ".join(words[start : data.draw(st.integers(start + 1, len(words)))])
    spot = locate(quote, text)
    assert spot is not None
    first, last = spot
    assert " ".join(quote.split()) in " ".join(" ".join(text.splitlines()[first - 1 : last]).split())
    assert locate(quote + "z", text) is None


def test_ranking_prefers_rare_and_frequent_words() -> None:
    parts = passages("the cat\n\nthe dog and the dog\n\nthe cat and the dog\n\nthe bird")
    ranked = [first for _, first, _, _ in rank(parts, stems("bird dog"))]
    assert ranked[0] == 7
    assert set(ranked) == {3, 5, 7}
    assert rank([], ["x"]) == []


def test_headings_and_lead_ins() -> None:
    text = "PREAMBLE\n\n1. Scope.\n\nThis text.\n\n2.1. Grants\n\nWe say. Each of us grants:\n\n(a) one;\n\n(b) two.\n"
    assert headings(text) == [(1, "PREAMBLE"), (3, "1. Scope"), (7, "2.1. Grants")]
    assert lead_in(13, passages(text)) == "Each of us grants:"
    assert lead_in(9, passages(text)) == ""
    assert openings("Short.\n") == []


def test_content_words_leave_out_the_documents_and_the_asking() -> None:
    assert content_words("What does each of these licences say about patents, and how do they differ?") == ["patents"]
    assert content_words("Compare these two contracts on their notice period.") == ["notice", "period"]
    assert content_words("Summarise this document") == []


def test_sentences_survive_abbreviations_and_numbers() -> None:
    text = 'See Sec. 3 of the act. It says "no." Then e.g. Mr. Hall left. 5.2. If You sue, it ends.'
    assert sentences(text) == [
        "See Sec. 3 of the act.",
        'It says "no."',
        "Then e.g. Mr. Hall left.",
        "5.2. If You sue, it ends.",
    ]


def test_following_questions_take_the_topic_along() -> None:
    assert read_question("And the deposit?", "When is the rent due?").words == ("rent", "due", "deposit")
    assert read_question("When is the heating serviced?", "When is the rent due?").earlier == ""


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("What is 2 + 3?", "2 + 3"),
        ("12*(4-1)", "12*(4-1)"),
        ("compute 9 ** 9", None),
        ("2 +", None),
        ("1 2", None),
        ("What is 2012?", None),
        ("How many cars?", None),
    ],
)
def test_arithmetic(text: str, expression: str | None) -> None:
    assert arithmetic(text) == expression
