"""The program inside a sandbox: a supervisor that holds the channel and a worker that runs the model's code.

Only the standard library is used, and little of it: an import costs start-up time in every sandbox. That is why the
modules here avoid `typing`, `dataclasses`, `json`, `socket` and `signal` in favour of the built-in modules below them.
The broker imports `frames` from here too, so both ends share one codec.
"""
