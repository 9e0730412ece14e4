"""Fixtures of the gateway's integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.gateway.rig import Gateway, running


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """A gateway of the test's own."""
    async with running(tmp_path) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """A gateway for all tests of a module that leave it as they found it."""
    async with running(tmp_path_factory.mktemp("gateway")) as made:
        yield made
