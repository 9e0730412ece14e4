"""Which step to choose, and how the Sub model and the host tools are asked."""

LADDER = """\
Take the cheapest step that is enough:
1. Python, for everything exact: reading, searching, parsing, counting, sorting, arithmetic, comparing.
2. `llm_query(prompt)`, for one judgement about meaning: classify, summarise, extract, compare.
3. `llm_query_batched(prompts)`, for many such judgements: one call, answered side by side and in order.{recursion}

Narrow down with Python first, then ask about what is left. The model behind `llm_query` sees its prompt and nothing \
else: put the question, the text and the form of the answer into it, and mark where the text begins and ends. A prompt \
may hold up to 100,000 characters, so a few large prompts do better than many small ones. A result that begins with \
"[ERROR]" is a failed prompt, not an answer: look for it, and ask again only for those."""

LADDER_CHILDREN = """
4. `rlm_query(task, …)`, for one question that needs its own search in several steps.
5. `rlm_query_batched([…])`, for several such questions that do not depend on each other."""

HOST_TOOLS = """\
Host tools return values as JSON. An expected failure comes back as `{{"ok": false, "error": …, "message": …}}`, so \
check it before you use a result. Tools that page take `offset` and `limit`."""
