"""Checks of what is kept: databases and the blob store."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

from cli.commands.db import SERVICES
from cli.doctor.check import CheckFailed
from config.policy import Policy
from services.common.blobs import BlobStore
from services.common.database import database_url
from services.common.ids import new_id
from services.common.migrations import check

PROBE = b"fleet doctor\n"


async def databases(policy: Policy) -> str:
    """Every service's database answers and is at the newest revision."""
    kinds = set()
    for service in SERVICES:
        url = database_url(policy, service)
        await check(service, url)
        kinds.add(url.partition("+")[0].partition(":")[0])
    return f"{len(SERVICES)} at the newest revision ({', '.join(sorted(kinds))})"


async def blobs(policy: Policy) -> str:
    """The blob store takes a document, gives it back unchanged, and deletes it."""
    store = BlobStore(policy.storage.blobs)
    key = f"doctor/{new_id()}"
    _size, sha256 = await store.put_stream(key, _probe())
    try:
        read = b"".join([chunk async for chunk in store.get_stream(key)])
    finally:
        await store.delete(key)
    if read != PROBE or sha256 != hashlib.sha256(PROBE).hexdigest():
        raise CheckFailed("a document came back changed")
    return "wrote, read and deleted a document"


async def _probe() -> AsyncIterator[bytes]:
    yield PROBE
