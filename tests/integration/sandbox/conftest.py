"""Real sandboxes for tests."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.sandbox.providers.base import Kind, SandboxSpec
from services.sandbox.providers.local.layout import LocalLimits
from services.sandbox.providers.local.provider import LocalProvider
from tests.integration.sandbox.interpreter import Interpreter

LIMITS = LocalLimits(cpu_seconds=20, memory_mb=400, processes=24, files_mb=16, grace_seconds=0.5)


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[LocalProvider]:
    """A provider whose sandboxes are all gone at the end."""
    provider = LocalProvider(tmp_path / "data", LIMITS)
    yield provider
    await provider.close()
    assert await provider.list_owned() == []


@pytest.fixture
async def root(provider: LocalProvider) -> AsyncIterator[Interpreter]:
    """An opened Root sandbox."""
    name = f"test-{secrets.token_hex(6)}"
    await provider.create(SandboxSpec(name, Kind.ROOT, "w1"))
    interpreter = Interpreter(await provider.connect(name))
    await interpreter.open()
    yield interpreter
    await interpreter.close()
