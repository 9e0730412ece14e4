"""Fixtures of the common integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from config.loader import load
from config.policy import Policy
from tests.integration.common.databases import database_url, postgres_url
from tests.integration.common.rig import MakePolicy, Rig, serve

__all__ = ["database_url", "make_policy", "postgres_url", "rig", "strict_rig"]


@pytest.fixture
def make_policy(tmp_path: Path) -> MakePolicy:
    def make(*overrides: str) -> Policy:
        return load(profile="test", env={}, overrides=[f"storage.data_root={tmp_path}", *overrides], components=())

    return make


@pytest.fixture
async def rig(make_policy: MakePolicy) -> AsyncIterator[Rig]:
    async for made in serve(make_policy()):
        yield made


@pytest.fixture
async def strict_rig(make_policy: MakePolicy) -> AsyncIterator[Rig]:
    policy = make_policy("auth.mode=keys", "auth.signing_key_env=SIGNING", "auth.verify_keys_env=VERIFY")
    async for made in serve(policy):
        yield made
