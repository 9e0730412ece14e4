"""The scripted model as a process of its own: `python -m bench.model`."""

from __future__ import annotations

import json
import sys

from bench.programs import reply_to
from tests.fakes.scripted_llm import ScriptedLlm


def main() -> None:
    """Serve until standard input ends."""
    with ScriptedLlm(reply_to) as llm:
        print(json.dumps({"base_url": llm.base_url}), flush=True)
        for _ in sys.stdin:
            llm.requests.clear()


if __name__ == "__main__":
    main()
