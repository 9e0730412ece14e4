"""Standard streams of the worker: whole before every step, whatever the step before did to them."""

from __future__ import annotations

import io
import os
import sys

from .lineage import Lineage

_SAVED = {0: 900, 1: 901, 2: 902}


class Streams:
    """Keeps copies of descriptors 0 to 2 and puts them and the `sys` streams back.

    Args:
        lineage: Says whose prints are dropped.
    """

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        for descriptor, copy in _SAVED.items():
            os.dup2(descriptor, copy, inheritable=False)
        self._open()

    def _open(self) -> None:
        self._stdin = io.TextIOWrapper(io.FileIO(0, "r", closefd=False), encoding="utf-8", errors="surrogateescape")
        self._stdout = _Printed(1, self._lineage)
        self._stderr = _Printed(2, self._lineage)

    def restore(self) -> None:
        """Make 0, 1, 2 and `sys.stdin`, `sys.stdout`, `sys.stderr` the captured ones again."""
        for descriptor, copy in _SAVED.items():
            os.dup2(copy, descriptor)
        if self._stdin.closed or self._stdout.closed or self._stderr.closed:
            self._open()
        sys.stdin = sys.__stdin__ = self._stdin  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = self._stdout  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self._stderr  # type: ignore[misc]

    def flush(self) -> None:
        """Write out what is buffered, in the captured streams and in those that model code put in their place."""
        for stream in (sys.stdout, sys.stderr, self._stdout, self._stderr):
            try:
                stream.flush()
            except Exception:  # noqa: BLE001, S112 - a stream that model code made may raise anything
                continue


class _Printed(io.TextIOWrapper):
    """Text on its way to the step's output, without that of threads which an earlier invocation left running."""

    def __init__(self, descriptor: int, lineage: Lineage) -> None:
        raw = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False), 1 << 16)
        # Lone surrogates are printed as escapes: output is UTF-8 whatever is printed.
        super().__init__(raw, encoding="utf-8", errors="backslashreplace", newline="\n", line_buffering=True)
        self._lineage = lineage

    def write(self, text: str, /) -> int:
        return len(text) if self._lineage.late else super().write(text)
