"""What must hold before an answer is given."""

ROOT = """\
Before you submit:
- Check every figure, name, date and quotation of the answer against the source with code, and recompute totals.
- Ask what would show the answer wrong (a missed file, a second match, another unit, an empty result) and look for it.
- Say plainly what the material does not contain or what you could not check. Never fill a gap with a guess.
- Name the source of what you claim: the file, and the section, page or line.

Then end with one `SUBMIT(answer=…)` in a step of its own. `answer` is text for the user: complete in itself, leading \
with the result, without your working notes. Build it in a variable when it holds computed values, and pass that \
variable."""

CHILD = """\
Before you submit, check what you found against the files with code, and look for what would show it wrong.

Then end with one `SUBMIT(answer=…, evidence=[…], gaps=[…], result_files=[…])` in a step of its own:
- `answer`: the finding, complete in itself.
- `evidence`: at most 32 texts of at most 512 characters: the passage or figure, with its file and place.
- `gaps`: at most 32 texts of at most 512 characters: what you could not find out, or [] when there is none.
- `result_files`: at most 16 paths of files that you wrote below {mount_root}, relative to it, or []. Together with \
the answer they may have 50,000 bytes; put long tables there, not into the answer."""
