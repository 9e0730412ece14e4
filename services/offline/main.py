"""Composition root of the offline model."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from config.loader import ConfigError, load
from config.policy import Policy
from services.offline.server import OfflineService


def build_service(policy: Policy) -> OfflineService:
    """The offline model's server at the policy's address; port 0 lets the system choose."""
    host, _, port = policy.bind_address("offline").rpartition(":")
    return OfflineService(host.strip("[]"), int(port))


async def serve(policy: Policy) -> None:
    """Run the server until SIGINT or SIGTERM.

    Raises:
        OSError: The address can't be bound.
    """
    service = build_service(policy)
    base_url = await service.start()
    sys.stdout.write(f"fleet-offline serves {base_url}\n")
    sys.stdout.flush()
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    ended = asyncio.create_task(service.wait())
    asked = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
        await service.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await ended


def main() -> int:
    """Load the policy and serve; returns the exit code (2 for a policy or an address that can't be used)."""
    try:
        policy = load()
        asyncio.run(serve(policy))
    except ConfigError as error:
        sys.stderr.write(f"fleet-offline: error: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"fleet-offline: error: can't listen: {error.strerror}\n")
        return 2
    return 0
