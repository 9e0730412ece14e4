"""`python -m bench`: measure everybody and report."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import grpc
import httpx
from rich.console import Console

from bench.cases import attachment, children, concurrency, events, interpreter, memory, warm_turn
from bench.lineup import Lineup, lineup
from bench.report import as_json, as_page, print_tables
from bench.samples import Case

Measure = Callable[[Lineup], list[Case]]


def _cases(full: bool) -> dict[str, Measure]:
    return {
        "cold": lambda peers: [peers.cold_start()],
        "memory": memory.measure,
        "warm": warm_turn.measure,
        "interpreter": interpreter.measure,
        "children": children.measure,
        "events": events.measure,
        "attachment": partial(attachment.measure, full=full),
        "concurrency": partial(concurrency.measure, full=full),
    }


def _measured(chosen: dict[str, Measure], console: Console) -> tuple[list[Case], int]:
    """Run the chosen cases; returns what was measured and how many could not be."""
    found: list[Case] = []
    failed = 0
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder, console.status("starting") as status:
        with lineup(Path(folder), status.update) as peers:
            if peers.missing:
                console.print(peers.missing, style="yellow")
            for name, measure in chosen.items():
                status.update(f"measuring: {name}")
                try:
                    found += measure(peers)
                except (RuntimeError, grpc.RpcError, httpx.HTTPError) as error:
                    failed += 1
                    console.print(f"{name} could not be measured: {error}", style="red", markup=False)
    return found, failed


def main() -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure Fleet against stock dspy.RLM.")
    parser.add_argument("--full", action="store_true", help="Deno takes part in everything; takes many minutes")
    parser.add_argument("--only", nargs="+", choices=_cases(False), metavar="CASE", help="measure only these cases")
    parser.add_argument("--json", action="store_true", help="write everything measured to standard output as JSON")
    parser.add_argument("--results", type=Path, help="write the ratios to this Markdown page")
    options = parser.parse_args()
    begin = time.monotonic()
    chosen = {name: run for name, run in _cases(options.full).items() if not options.only or name in options.only}
    cases, failed = _measured(chosen, Console(stderr=True))
    seconds = time.monotonic() - begin
    if options.json:
        print(json.dumps(as_json(cases, seconds), indent=2))
    else:
        print_tables(cases, Console(width=100))
        print(f"{seconds:.0f} seconds")
    if options.results:
        options.results.write_text(as_page(cases))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
