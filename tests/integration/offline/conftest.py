"""The real server on a port of its own, for all tests of the offline model over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from services.offline.server import OfflineService
from tests.integration.offline.rig import Rig


@pytest.fixture(scope="session")
def offline_url() -> Iterator[str]:
    """Base URL of a server that runs in a loop and thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="offline-model")
    thread.start()
    service = OfflineService("127.0.0.1", 0)
    yield asyncio.run_coroutine_threadsafe(service.start(), loop).result(20)
    asyncio.run_coroutine_threadsafe(service.stop(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    loop.close()


@pytest.fixture
def http(offline_url: str) -> Iterator[httpx.Client]:
    """A plain HTTP client of the server."""
    with httpx.Client(base_url=offline_url, timeout=20) as client:
        yield client


@pytest.fixture
def rig(offline_url: str, tmp_path: Path, warm_llm: None) -> Rig:
    """Runs Turns with the real RLM against the server."""
    return Rig(offline_url, tmp_path)
