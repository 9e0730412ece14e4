"""Programs that end a run: they put the answer together from what the earlier steps kept, and SUBMIT it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from services.offline.programs.compose import literal, program
from services.offline.programs.retrieval import holds, passages, rank, stem, stems

SUBMIT = "submit the answer"
SIGNATURE = (
    "This answer comes from the offline model: rule-based extraction and computation, not a language model; "
    "it quotes and counts, it does not interpret."
)
"""The line that every final answer ends with."""

_NO_TOPIC = "The question names no topic that I could search for, so these are the openings of the sections."
_EMPTY = {"array": "[]", "object": "{}", "integer": "0", "number": "0.0", "boolean": "False"}


def pick(items: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """At most ``most`` quotes, one of each section before a second of any, in the order of the document."""
    seen: Counter[str] = Counter()
    ordered = []
    for place, item in enumerate(items):
        ordered.append((seen[item["title"]], place))
        seen[item["title"]] += 1
    return sorted((items[place] for _, place in sorted(ordered)[:most]), key=lambda item: item["first"])


def closest(items: list[dict[str, Any]], terms: list[str], most: int) -> list[dict[str, Any]]:
    """The quotes that hold most of the question's rarer words, best first."""
    texts = [(place, place, f"{item['title']} {item['lead']} {item['quote']}") for place, item in enumerate(items)]
    return [items[place] for _, place, _, _ in rank(texts, terms)[:most]]


def whole(item: dict[str, Any]) -> str:
    """A quote with the words that it goes on from, and a mark where it was cut."""
    lead, quote = str(item["lead"]), str(item["quote"])
    cut = "" if quote[-1:] in ".,:;!?)\"'”" else " […]"
    return f"{lead} […] {quote}{cut}" if lead else quote + cut


def lines_of(item: dict[str, Any]) -> str:
    """Where a quote stands: 'line 3' or 'lines 3-5'."""
    return f"lines {item['first']}-{item['last']}" if item["first"] < item["last"] else f"line {item['first']}"


def references(text: str) -> list[tuple[int, int, str]]:
    """The passage that most plainly takes in another text, if any, as (first line, last line, text)."""
    strong, weak = r"(?i)\bincorporat\w+", r"(?i)\b(supplement\w+|under the terms of|refers? to|see also)\b"
    found = [part for part in passages(text) if re.search(strong, part[2])]
    return (found or [part for part in passages(text) if re.search(weak, part[2])])[:1]


def submit_call(outputs: Mapping[str, str], known: Mapping[str, str]) -> str:
    """The SUBMIT statement: known expressions by output name, empty values of the right type for the rest."""
    strings = [name for name, kind in outputs.items() if kind == "string"]
    answer = known.get("answer", '""')
    fields = {}
    for name, kind in outputs.items():
        default = answer if strings[:1] == [name] and "answer" not in outputs else _EMPTY.get(kind, '""')
        fields[name] = known.get(name, default)
    return f"SUBMIT({', '.join(f'{name}={value}' for name, value in fields.items())})"


_TABLE_PART = """
clauses = {clauses}
for asked, n, readings, notes in clauses:
    parts.append(f"\\n**{{asked[:1].upper()}}{{asked[1:]}}?**\\n")
    for name, reading in readings:
        found = results[name]
        where = f"{{documents[n]['name']}} {{found.get('cite', '')}}".strip()
        verdicts = {{True: "a second computation agrees", False: "A SECOND COMPUTATION DISAGREES"}}
        checked = verdicts.get(found.get("agrees"), "not checked")
        parts.append(f"- {{reading}}: {{found['main']}} ({{where}}; rows: {{found['rows']}}; {{checked}})")
        findings.append(f"{{reading}}: {{found['main']}}")
        metrics.append({{"name": reading, "value": found["value"]}})
    parts += [f"- Note: {{note}}." for note in notes]
"""

_DOCUMENT_PART = """
topic, numbers = {topic}, {numbers}
words = {words}  # the question's words and their stems
silent = [n for n in numbers if not any(item["n"] == n for item in evidence)]
if len(numbers) > 1 and words:
    names = ", ".join(documents[n]["name"] for n in silent)
    count = f"{{len(numbers) - len(silent)}} of {{len(numbers)}} documents say something about {{topic}}"
    parts.append(count + (f"; not {{names}}." if names else "."))
for n in numbers:
    name, text = documents[n]["name"], documents[n]["text"]
    mine = {choose}
    parts.append(f"\\n### {{name}}")
    never = [word for word, term in words if not holds(text, term)]
    parts += [f"- It never mentions {{', '.join(never)}}."] if never and mine else []
    for title, group in groupby(mine, key=lambda item: item["title"]):
        parts.append(f"- **{{title or 'No heading'}}**")
        for item in group:
            parts.append(f'  - "{{whole(item)}}" ({{name}}, {{lines_of(item)}})')
            findings.append(f"{{name}}, {{lines_of(item)}}: {{item['quote']}}")
    if mine:
        more = [lines_of(item) for item in evidence if item["n"] == n and item not in mine]
        parts += [f"- More on it: {{'; '.join(more)}}."] if more else []
        continue
    absent = len(never) == len(words)
    parts.append(f"- Nothing in it mentions {{topic}}." if absent else f"- No sentence in it bears on {{topic}}.")
    for first, last, part in references(text):
        quote = " ".join(part.split())[:400]
        parts.append(f'- It points to another text: "{{quote}}" ({{name}}, lines {{first}}-{{last}})')
        for other in documents:
            title = stems(next((line for line in other["text"].splitlines() if line.strip()), ""))
            if other["name"] != name and len(title) > 2 and set(title) <= set(stems(part)):
                parts.append(f"- That text is here as {{other['name']}}: what it says about {{topic}} stands there.")
"""

_ENDING = """answer = "\\n".join(parts).strip()
print(len(answer), "characters")
"""

_COMPARISON_PART = """
parts += ["\\n### How they differ", *comparison]
"""


def _listed(clauses: Sequence[tuple[str, int, list[tuple[str, str]], list[str]]]) -> str:
    """A list literal with one clause a line."""
    return "[\n" + "".join(f"    {literal(list(clause))},\n" for clause in clauses) + "]"


def submit_answer(
    outputs: Mapping[str, str],
    *,
    clauses: Sequence[tuple[str, int, list[tuple[str, str]], list[str]]] = (),
    numbers: Sequence[int] = (),
    words: Sequence[str] = (),
    each: bool = True,
    comparison: bool = False,
    remarks: Sequence[str] = (),
) -> str:
    """The last program of a Root.

    Args:
        outputs: Output names with their JSON types.
        clauses: For each clause of a table question: its text, document number, (result name, reading) pairs, notes.
        numbers: Prose documents that were searched.
        words: The question's content words.
        each: Whether every one of them counts alone, rather than all together.
        comparison: Whether the Sub model's comparison was kept.
        remarks: Lines to add as they are.
    """
    body = "parts, findings, metrics = [], [], []\n"
    pieces: tuple[Any, ...] = ()
    if clauses:
        body += _TABLE_PART.format(clauses=_listed(clauses))
    if numbers:
        most = 8 if len(numbers) <= 6 else 3
        topic = ", ".join(f"'{word}'" for word in words) or "the question"
        pairs = literal([[f"'{word}'", stem(word)] for word in words])
        items = '[item for item in evidence if item["n"] == n]'
        chosen = f"pick({items}, {most})"
        if not each:
            chosen = f"closest({items}, {literal([stem(word) for word in words])}, {most - 3 if most > 3 else most})"
        body += "" if words else f"parts.append({literal(_NO_TOPIC)})\n"
        body += _DOCUMENT_PART.format(topic=literal(topic), numbers=list(numbers), words=pairs, choose=chosen)
        chooser = (pick,) if each else (rank, closest)
        pieces = (stem, stems, holds, passages, *chooser, whole, lines_of, references)
    body += _COMPARISON_PART if comparison else ""
    body += f"parts += {literal(list(remarks))}\n" if remarks else ""
    body += f"parts.append({literal(chr(10) + SIGNATURE)})\n" + _ENDING
    known = {"answer": "answer", "findings": "findings", "metrics": "metrics"}
    return program(SUBMIT, body + submit_call(outputs, known), pieces)


_CHILD = """
topic = {topic}
said, gaps, quoted = [], [], []
for n, doc in enumerate(documents):
    mine = pick([item for item in evidence if item["n"] == n], {most})
    for item in mine:
        head = f"{{doc['name']}}:{{item['first']}}-{{item['last']}} [{{item['title'][:60]}}]"
        room = 500 - len(head)
        quote = item["quote"] if len(item["quote"]) <= room else item["quote"][:room].rpartition(" ")[0]
        quoted.append(f'{{head}} "{{quote}}"')
    places = list(dict.fromkeys(f"{{item['title'] or 'line ' + str(item['first'])}}" for item in mine))
    if mine:
        said.append(f"{{doc['name']}} bears on it in {{len(mine)}} sentences, under: {{'; '.join(places)}}.")
        continue
    gaps.append(f"{{doc['name']}}: nothing about {{topic}}"[:500])
    said.append(f"{{doc['name']}} says nothing about {{topic}}.")
    for first, last, part in references(doc["text"]):
        said.append(f'It points to another text (lines {{first}}-{{last}}): "{{" ".join(part.split())[:300]}}"')
answer = "\\n".join([*said, {signature}])[:20000]
"""


def submit_child(outputs: Mapping[str, str], topic: str, most: int) -> str:
    """The last program of a child: a short answer, its quotes as evidence, what it did not find as gaps."""
    body = _CHILD.format(topic=literal(topic or "the question"), most=most, signature=literal(SIGNATURE))
    known = {"answer": "answer", "evidence": "quoted[:32]", "gaps": "gaps[:32]", "result_files": "[]"}
    return program(SUBMIT, body + submit_call(outputs, known), (stem, stems, passages, pick, references))


def submit_text(outputs: Mapping[str, str], lines: Sequence[str]) -> str:
    """A SUBMIT of fixed lines, for questions that need no document."""
    body = f"answer = {literal(chr(10).join([*lines, '', SIGNATURE]))}\n"
    gaps = f"[{literal(lines[0])}]" if lines else "[]"
    return program(SUBMIT, body + submit_call(outputs, {"answer": "answer", "gaps": gaps}))


def submit_sum(outputs: Mapping[str, str], expression: str) -> str:
    """Compute a plain arithmetic expression and SUBMIT it with its value."""
    body = f"total = {expression}\nprint(total)\n"
    body += f"answer = f{literal(f'{expression} = {{total}}')} + {literal(2 * chr(10) + SIGNATURE)}\n"
    return program(SUBMIT, body + submit_call(outputs, {"answer": "answer"}))
