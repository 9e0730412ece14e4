"""A broker's process that is to be looked at, or killed, from outside.

Usage: victim.py DATA_ROOT NAME CODE; makes a sandbox, runs the code, prints the outcome as one JSON line, and then
waits for its standard input to close. A failure to make the sandbox is printed as its reason.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from services.common.errors import FleetError
from services.sandbox.providers.base import Kind, SandboxSpec
from services.sandbox.providers.local.provider import LocalProvider
from tests.integration.sandbox.interpreter import Interpreter


async def _main(data_root: str, name: str, code: str) -> None:
    provider = LocalProvider(Path(data_root))
    try:
        await provider.create(SandboxSpec(name, Kind.ROOT, "w1"))
    except FleetError as error:
        print(json.dumps({"reason": error.reason, "message": error.message}), flush=True)
        return
    interpreter = Interpreter(await provider.connect(name))
    await interpreter.open()
    result = await interpreter.run(code)
    print(json.dumps({"status": result.status, "output": result.output, "error": result.error}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await provider.close()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
