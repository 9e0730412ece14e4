"""Programs about prose: look, search, ask the Sub model, verify."""

from __future__ import annotations

from services.offline.programs.compose import literal, program
from services.offline.programs.retrieval import (
    heading_at,
    headings,
    lead_in,
    locate,
    openings,
    passages,
    rank,
    stem,
    stems,
)

LOOK = "look at what is there"
SEARCH = "find the passages that bear on the question"
ASK = "ask the Sub model which sentences bear on the question"
VERIFY = "verify every quote in the documents"
CHILDREN = "ask one child per document"
COMPARE = "ask the Sub model how the documents differ"

_LOOK = """
documents = []
for item in {items}:
    raw = {read}
    text = "" if b"\\0" in raw[:4096] else raw.decode("utf-8-sig", "replace")
    name = {name}
    if name in [known["name"] for known in documents]:
        name = f"{{name}} ({{len(documents)}})"
    documents.append({{"name": name, "path": {path}, "text": text, "bytes": len(raw)}})
"""

_SHOW = """
for n, doc in enumerate(documents):
    lines = doc["text"].splitlines()
    first = [line.strip()[:60] for line in lines if line.strip()][: 1 if len(documents) > 10 else 3]
    seen = {"n": n, "file": doc["name"][:80], "bytes": doc["bytes"], "lines": len(lines), "first": first}
    print(json.dumps(seen))
"""

_KEPT = """
kept = [doc for doc in globals().get("documents", []) if doc["path"]]  # what an earlier turn has read
"""

_EARLIER = """
if not documents and history:  # nothing new is attached: what earlier turns have read, else what they said
    said = [f"Turn {k}: {turn['request']}\\n{turn['answer']}" for k, turn in enumerate(history, 1)]
    text = "\\n\\n".join(said)
    documents = kept or [{"name": "earlier turns", "path": "", "text": text, "bytes": len(text)}]
"""

_HISTORY = """
print(json.dumps({"earlier_turns": len(history)}))
for turn in list(history)[-1:]:
    print(json.dumps({"last_request": turn["request"][:600], "last_answer": turn["answer"][:200]}))
"""

_LONG_REQUEST = 'print(json.dumps({"request": request[:4000]}))\n'


def look_at_attachments(*, history: bool, attachments: bool, long_request: bool) -> str:
    """Print what is attached and what was said before; keeps the texts in ``documents``."""
    body = _KEPT if history else ""
    if attachments:
        body += _LOOK.format(items="attachments", read="item.bytes()", name="item.filename", path="item.path")
    else:
        body += "documents = []\n"
    body += (_EARLIER if history else "") + _SHOW + (_HISTORY if history else "")
    return program(LOOK, body + (_LONG_REQUEST if long_request else ""))


def look_at_inputs() -> str:
    """The same for a child, whose files are staged under ``local_path``."""
    read, name = 'Path(item["local_path"]).read_bytes()', 'os.path.basename(item["path"])'
    return program(LOOK, _LOOK.format(items="inputs", read=read, name=name, path='item["path"]') + _SHOW)


_VARIABLES = """
documents = []
for name, value in {pairs}:
    text = value if isinstance(value, str) else json.dumps(value, default=str, indent=1)
    documents.append({{"name": name, "path": "", "text": text, "bytes": len(text)}})
"""


def look_at_variables(names: list[str]) -> str:
    """The same for any other inputs: each variable is one document."""
    pairs = "[" + ", ".join(f'("{name}", {name})' for name in names) + "]"
    return program(LOOK, _VARIABLES.format(pairs=pairs) + _SHOW)


_SEARCH = """
question = {question}
terms = {terms}  # stems of the question's own words
candidates = []
for n in {numbers}:
    text = documents[n]["text"]
    found = {find}
    titles = headings(text)
    candidates += [(n, first, last, part) for _, first, last, part in found[:{keep}]]
    best = [[first, last, heading_at(first, titles)[:50]] for _, first, last, _ in found[:5]]
    print(json.dumps({{"n": n, "file": documents[n]["name"], "passages": len(found), "best": best}}))
"""

_SEARCHING = (stem, stems, passages, rank, headings, heading_at)
_OPENING = (stem, stems, passages, headings, heading_at, openings)
_LOCATING = (headings, heading_at, passages, lead_in, locate)


def search(question: str, terms: list[str], numbers: list[int], keep: int) -> str:
    """Rank the passages of some documents; with no terms, take the openings.

    Args:
        question: A Python expression for the question's text.
        terms: Stems to look for.
        numbers: Indices into ``documents``.
        keep: Passages kept for each document.
    """
    find = "rank(passages(text), terms)" if terms else "openings(text)"
    body = _SEARCH.format(question=question, terms=literal(terms), numbers=numbers, keep=keep, find=find)
    return program(SEARCH, body, _SEARCHING if terms else _OPENING)


_ASK = """
prompts, sources = [], []
for n in sorted({{n for n, *_ in candidates}}):
    mine = sorted(part for part in candidates if part[0] == n)
    size = -(-len(mine) // {per_document})
    for start in range(0, len(mine), size):
        part = mine[start : start + size]
        chunk = "\\n\\n".join(f"[lines {{first}}-{{last}}]\\n{{text}}" for _, first, last, text in part)
        prompts.append(
            f"Question: {{question}}\\n\\nText from {{documents[n]['name']}}:\\n{{chunk[:20000]}}\\n\\n"
            "Copy the sentences of the text that bear on the question, word for word, one a line, each after '- '. "
            "Answer NOT FOUND if there are none."
        )
        sources.append(n)
quotes = []
for n, reply in zip(sources, llm_query_batched(prompts)):
    lines = [line[2:].strip() for line in reply.splitlines() if line.startswith("- ")]
    copied = [line.removeprefix('"').removesuffix('"') for line in lines]
    quotes += [(n, quote) for quote in copied]
    print(json.dumps({{"n": n, "quotes": len(copied), "first": copied[0][:100] if copied else "NOT FOUND"}}))
"""


def ask(per_document: int) -> str:
    """Send the candidate passages to the Sub model in at most ``per_document`` prompts for each document."""
    return program(ASK, _ASK.format(per_document=per_document))


_VERIFY = """
evidence, refused = [], 0
for n in sorted({n for n, _ in quotes}):
    text = documents[n]["text"]
    titles, parts, spots = headings(text), passages(text), []
    for quote in dict.fromkeys(quote for k, quote in quotes if k == n):
        spot = locate(quote, text)
        if spot is None:
            refused += 1
            continue
        spots.append(f"{spot[0]}-{spot[1]}")
        found = {"n": n, "first": spot[0], "last": spot[1], "quote": quote}
        evidence.append(found | {"title": heading_at(spot[0], titles), "lead": lead_in(spot[0], parts)})
    print(json.dumps({"n": n, "file": documents[n]["name"], "verified": len(spots), "lines": spots[:12]}))
print(json.dumps({"evidence": len(evidence), "not_in_the_document": refused}))
"""

_WHOLE_PASSAGES = """
# The Sub model gave nothing: whole passages have to do.
quotes = [(n, " ".join(part.split())[:400]) for n, _, _, part in candidates]
"""

_FROM_CHILDREN = """
for outcome in outcomes:
    for item in outcome.get("evidence") or []:
        cited = re.match(r'(.+?):\\d+(?:-\\d+)?(?: \\[.*?\\])? "(.*)"$', item, re.DOTALL)
        quotes += [(n, cited[2]) for n, doc in enumerate(documents) if cited and doc["name"] == cited[1]]
"""


def verify(*, children: bool = False, whole_passages: bool = False, keep: bool = False) -> str:
    """Keep only quotes that really are in the document, with their lines.

    Args:
        children: Take the quotes of the children's evidence.
        whole_passages: Take the ranked passages themselves, when the Sub model could not be asked.
        keep: Quotes of the Sub model are there already.
    """
    before = _WHOLE_PASSAGES if whole_passages else "" if keep else "quotes = []\n"
    return program(VERIFY, before + (_FROM_CHILDREN if children else "") + _VERIFY, _LOCATING)


_ASK_CHILDREN = """
question = {question}
groups = {groups}  # which documents each child reads
calls = []
for group in groups:
    names = ", ".join(documents[n]["name"] for n in group)
    calls.append({{
        "task": f"{{question[:1500]}}\\n\\nAnswer from {{names}} alone; quote the sentences that bear on it.",
        "inputs": [documents[n]["path"] for n in group],
        "context": {context},
    }})
outcomes = rlm_query_batched({argument}calls)
for group, outcome in zip(groups, outcomes):
    print(json.dumps({{
        "documents": group,
        "status": outcome["status"],
        "evidence": len(outcome.get("evidence") or []),
        "answer": (outcome.get("answer") or str(outcome.get("error")))[:300],
    }}))
"""


def ask_children(question: str, groups: list[list[int]], context: str, parameter: str) -> str:
    """One child for each group of documents, all at once.

    Args:
        question: A Python expression for the question's text.
        groups: Indices into ``documents``, for each child.
        context: What every child is told besides its task.
        parameter: Name of the tool's parameter, or an empty text to pass the calls by position.
    """
    argument = f"{parameter}=" if parameter else ""
    body = _ASK_CHILDREN.format(question=question, groups=groups, context=literal(context), argument=argument)
    return program(CHILDREN, body)


_COMPARE = """
blocks = []
for n, doc in enumerate(documents):
    lines = [f"### {doc['name']}"]
    for item in [item for item in evidence if item["n"] == n][:24]:
        lines.append(f'- line {item["first"]} [{item["title"]}]: "{item["lead"]} {item["quote"]}"')
    blocks.append("\\n".join(lines if lines[1:] else [*lines, "(nothing found)"]))
comparison = llm_query(
    f"Compare the documents. Question: {question}\\n\\n" + "\\n\\n".join(blocks)
    + "\\n\\nSay in short points how they differ, one a line, each after '- ', naming documents and lines."
)
comparison = [line for line in comparison.splitlines() if line.startswith("- ")]
print("\\n".join(comparison)[:3000])
"""


def compare() -> str:
    """One prompt to the Sub model with the verified quotes of every document."""
    return program(COMPARE, _COMPARE)
