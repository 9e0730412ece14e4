"""`dspy.RLM` as a process: `python -m bench.peers.dspy_worker {exec|deno} <base URL> <folder>`.

It reads a JSON request a line from standard input and answers each with a JSON line.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.peers.dspy_rlm import DspyRlm, MakeInterpreter


class Requests:
    """Answers requests by their `op`."""

    def __init__(self, rlm: DspyRlm) -> None:
        self._rlm = rlm
        self._crowd: contextlib.ExitStack = contextlib.ExitStack()
        self._run_crowd: Callable[..., float] | None = None

    def answer(self, op: str, arguments: dict[str, Any]) -> object:
        """The answer to one request.

        Raises:
            RuntimeError: the peer's answer to a question is wrong, or there is no such operation.
        """
        if op == "gather":
            self._run_crowd = self._crowd.enter_context(self._rlm.crowd(**arguments))
            return None
        if op == "crowd" and self._run_crowd is not None:
            return self._run_crowd(**arguments)
        if op == "disperse":
            self._run_crowd = None
            self._crowd.close()
            return None
        if op in {"turn", "read", "children", "step", "start"}:
            return getattr(self._rlm, op)(**arguments)
        raise RuntimeError(f"no operation {op}")

    def close(self) -> None:
        """End every interpreter."""
        self._crowd.close()
        self._rlm.close()


def _maker(kind: str, folder: Path) -> MakeInterpreter:
    if kind == "exec":
        from bench.peers.exec_interpreter import ExecInterpreter

        return ExecInterpreter
    from bench.peers.deno_interpreter import deno_interpreter, write_import_map

    return partial(deno_interpreter, write_import_map(folder))


def main() -> None:
    """Answer requests until standard input ends."""
    kind, base_url, folder = sys.argv[1:]
    requests = Requests(DspyRlm(base_url, _maker(kind, Path(folder))))
    print("{}", flush=True)
    try:
        for line in sys.stdin:
            arguments = json.loads(line)
            print(json.dumps({"result": requests.answer(arguments.pop("op"), arguments)}), flush=True)
    finally:
        requests.close()


if __name__ == "__main__":
    main()
