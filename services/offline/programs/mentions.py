"""A piece that finds values of a table in a question."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from services.offline.programs.retrieval import stem, stems


def mentions(rows: list[tuple[int, Any]], types: Any, phrases: set[str], codes: Any) -> list[dict[str, Any]]:
    """Phrases of the question that are a value of a text column, or a word in some values; longest first."""
    found = []
    for column in [name for name, kind in types.items() if kind == "text"]:
        values = Counter(row[column] for _, row in rows if row[column] is not None)
        plain = {" ".join(re.findall(r"[^\W_]+", value.lower())): value for value in values}
        words = Counter(word for value, count in values.items() for word in set(stems(value)) for _ in range(count))
        for phrase in sorted(phrases):
            lower = phrase.lower()
            forms = [lower, lower.rstrip("s"), stem(lower), stem(lower.rstrip("y")), lower.removesuffix("ny")]
            value = codes[phrase] if codes.get(phrase) in values else None
            value = value or next((plain[form] for form in forms if len(form) > 1 and form in plain), None)
            is_code = value is not None and len(value) <= 3 and value.isupper() and phrase not in codes
            fact = {"mention": phrase, "column": column}
            if value is not None and not (is_code and phrase != value):
                found.append(fact | {"value": value, "rows": values[value]})
            elif " " not in phrase and len(phrase) > 3 and stem(phrase) in words:
                found.append(fact | {"contains": stem(phrase), "rows": words[stem(phrase)]})
    return sorted(found, key=lambda fact: ("contains" in fact, -len(fact["mention"]), -fact["rows"]))
