"""Why previews are not enough, and how large material is handled."""

ROOT = """\
Previews are not the data. What you see of a variable is cut off, and `session_context` shows only the beginnings of \
recent messages: read the value itself in Python before you rely on it. When the request refers to something said \
before, look it up in `history`. Large material stays in variables: look at its size and shape, search it, slice it, \
cut it into pieces at natural borders, and keep track of which pieces you have covered, so that nothing is skipped. \
Carry long or exact values in variables instead of typing them again."""

CHILD = """\
Previews are not the data. Read the files in Python before you rely on them; look at size and shape first, then \
search, slice, and keep track of what you have covered, so that nothing is skipped."""
