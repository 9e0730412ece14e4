"""DSPy's own interpreter, Pyodide in Deno, with its one remote import read from here.

`python -m bench.peers.deno_interpreter <folder>` downloads what it needs, so that no measured start does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from dspy.primitives.python_interpreter import PythonInterpreter

_REMOTE_IMPORT = "https://deno.land/std@0.186.0/io/mod.ts"
_READERS = Path(__file__).with_name("line_readers.ts")
_FIRST_START_SECONDS = 120


def write_import_map(folder: Path) -> Path:
    """Write the map that replaces the runner's remote import; returns its path."""
    path = folder / "import_map.json"
    path.write_text(json.dumps({"imports": {_REMOTE_IMPORT: _READERS.as_uri()}}))
    return path


def deno_interpreter(import_map: Path) -> PythonInterpreter:
    """An interpreter that starts its Deno when it is first used."""
    command = PythonInterpreter().deno_command
    place = command.index("run") + 1
    return PythonInterpreter(deno_command=[*command[:place], f"--import-map={import_map}", *command[place:]])


def fetch(import_map: Path) -> None:
    """Download Pyodide into `DENO_DIR` when it is not there yet.

    Raises:
        RuntimeError: Deno is missing or can't download.
    """
    command = PythonInterpreter().deno_command
    runner = next(part for part in command if part.endswith("runner.js"))
    cache = [command[0], "cache", "--no-config", "--no-lock", "--node-modules-dir=false", f"--import-map={import_map}"]
    env = {**os.environ, "DENO_NO_PACKAGE_JSON": "1"}
    try:
        done = subprocess.run(
            [*cache, runner], env=env, capture_output=True, text=True, timeout=_FIRST_START_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"Deno can't be used: {error}") from error
    if done.returncode:
        raise RuntimeError(f"Deno can't fetch Pyodide: {done.stderr.strip()[-300:]}")


if __name__ == "__main__":
    try:
        fetch(write_import_map(Path(sys.argv[1])))
    except RuntimeError as failure:
        raise SystemExit(str(failure)) from failure
