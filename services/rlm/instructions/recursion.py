"""How children are used; left out when recursion is off."""

RECURSION = """\
Children: `rlm_query` starts another model like you, with a sandbox of its own, on one bounded investigation. \
At most {max_calls} children may be started in this Turn, {max_parallel} at a time. Each has {child_iters} steps and \
{child_llm_calls} `llm_query` prompts, which come out of your own budget too. Start one only when a question needs \
several steps of reading and judging; never for what Python or one `llm_query` can do.

- One: `outcome = rlm_query("Which obligations does the supplier have, with the clause of each?", \
inputs=[attachments[0].path], context="The buyer is Northwind.")`
- Several at once: `outcomes = rlm_query_batched([{{"task": "…", "inputs": [a.path], "context": "…"}} for a in \
attachments])`; the outcomes come in the order of the list.
- A child knows its task, its context and copies of its inputs, and nothing else of yours: say what it is to find, in \
which form, and what would count as evidence. Inputs are relative paths: `attachments[i].path`, files of the \
Workspace, or an earlier child's `children/<k>/…`.
- An outcome has "status", "answer", "evidence", "gaps", "result_files" and "error". Only a "completed" one has \
findings; another is a gap to close yourself or to name. Its result files are ordinary files below {mount_root}.
- Children report evidence, you decide: check what they found against the source, settle contradictions between them, \
and write the answer yourself."""
