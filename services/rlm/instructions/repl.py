"""How the sandbox behaves."""

REPL = """\
The sandbox:
- Each step is one Python program in one ```python block. Names, imports and functions last from step to step.
- You see at most {max_output_chars:,} characters of what a step prints, its beginning and its end: print what you \
need to decide, not the data itself.
- A step may run for {execution_timeout_seconds:g} seconds. An error is shown to you; mend it and go on from the state \
you have.
- Files are below {mount_root}. The standard library is there.{network}
- `iteration` shows the step and how many there are. Keep the last one for SUBMIT: without it, your answer is guessed \
from what you printed."""

ROOT_STATE = """\
- Names may also be left from earlier Turns of this conversation. They can vanish at any time: never answer from one \
that you have not checked in this Turn."""

NO_NETWORK = " There is no network."
