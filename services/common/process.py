"""Runs services as a process: policy, guard, signals, drain.

`python -m services.<name>` and `fleet serve <name>` both end up here.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from config.loader import load
from config.policy import Policy
from config.problem import ConfigError
from config.server import ComponentName
from services.common.errors import FleetError
from services.common.version_guard import require_dspy

EXIT_USAGE = 2
"""Exit code of a policy, an environment or an address that can't be used."""


class Service(Protocol):
    """A part that runs inside an event loop."""

    async def start(self) -> str:
        """Serve; returns the address it is called at."""
        ...

    async def stop(self, grace: float) -> None:
        """Let running work end within `grace` seconds, then close everything."""
        ...


Build = Callable[[Policy], Service]
"""A service's composition root."""


@contextlib.asynccontextmanager
async def running(service: Service, grace: float) -> AsyncIterator[str]:
    """The address of `service`, which is stopped at the end, and also when its start fails half way."""
    try:
        yield await service.start()
    finally:
        await service.stop(grace)


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn errors that a person can mend into one line each and exit code 2."""
    try:
        yield
    except ConfigError as error:
        for line in str(error).splitlines():
            print(f"fleet: error: {line}", file=sys.stderr)  # noqa: T201 - before any log exists
        raise SystemExit(EXIT_USAGE) from error
    except FleetError as error:
        print(f"fleet: error: {error.message}", file=sys.stderr)  # noqa: T201 - before any log exists
        raise SystemExit(EXIT_USAGE) from error


def set_up_logs(policy: Policy, level: str) -> None:
    """Write this process's logs from `level` on, without the secrets that `policy` names."""
    # Imported when it is needed, so that --help and argument errors are instant.
    from services.common.logging import configure_logging
    from services.common.redaction import Redactor, known_secrets

    configure_logging(level, Redactor(known_secrets(policy, os.environ)))


async def until_signal() -> None:
    """Return at the first SIGINT or SIGTERM; a second one ends the process at once."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def on_signal(number: int) -> None:
        if asked.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        asked.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    try:
        await asked.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def announce(fields: Mapping[str, object]) -> None:
    """Write one JSON line to standard output, for the program that started this process."""
    print(json.dumps(fields), flush=True)  # noqa: T201 - the ready line is this command's output


async def _serve(policy: Policy, component: str, build: Build) -> None:
    async with running(build(policy), policy.server.drain_seconds) as address:
        announce({"event": "ready", "service": component, "address": address})
        await until_signal()


def serve(component: ComponentName, build: Build, policy: Policy) -> None:
    """Run one service until a signal ends it."""
    require_dspy()
    set_up_logs(policy, policy.server.log_level)
    with usage_errors():
        asyncio.run(_serve(policy, component, build))


def main(component: ComponentName, build: Build, arguments: Sequence[str] | None = None) -> None:
    """Run one service by the command line's policy options: `--profile`, `--config`, `--set`."""
    parser = argparse.ArgumentParser(prog=component, description=f"Run the {component} service.")
    parser.add_argument("--profile", help="profile of the policy file")
    parser.add_argument("--config", type=Path, help="another policy file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override one key")
    options = parser.parse_args(arguments)
    require_dspy()
    with usage_errors():
        policy = load(options.profile, path=options.config, overrides=options.set, components=(component,))
    serve(component, build, policy)
