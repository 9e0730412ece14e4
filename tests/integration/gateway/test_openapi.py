"""The OpenAPI document is true: generated requests, good and bad, get just the answers that it documents."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.integration.gateway.rig import Gateway, running


class _Background:
    """A gateway on a loop of its own thread, for clients that block."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self.ids: dict[str, str] = {}
        self.url = ""
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> _Background:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        async with running(self._root) as gateway:
            self.url = gateway.url
            self.ids = await _resources(gateway)
            self._ready.set()
            await self._stop.wait()


async def _resources(gateway: Gateway) -> dict[str, str]:
    """Ids of things that are there."""
    attachment = await gateway.http.post("/v1/attachments", files={"file": ("a.txt", b"text")})
    return {
        "session_id": await gateway.session(),
        "turn_id": await gateway.run(),
        "attachment_id": attachment.json()["id"],
    }


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Background]:
    with _Background(tmp_path_factory.mktemp("openapi")) as made:
        yield made


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_generated_requests(background: _Background, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{background.url}/openapi.json")
    checked = 0
    for found in schema.get_all_operations():
        try:
            strategy = found.ok().as_strategy(generation_mode=mode)
            _check(strategy, background.ids)
        except Unsatisfiable:
            # Nothing can be wrong about a request that has no parts.
            assert mode is GenerationMode.NEGATIVE
            continue
        checked += 1
    assert checked > 10


def _check(strategy: Any, known: dict[str, str]) -> None:
    @given(strategy)
    @settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    def check(case: Any) -> None:
        for name, value in known.items():
            # Some of the requests are about things that are there.
            if len(str(case.path_parameters.get(name, ""))) % 2:
                case.path_parameters[name] = value
        # Page tokens, cursors and texts have rules that a schema can't say.
        case.call_and_validate(timeout=10, excluded_checks=[positive_data_acceptance])

    check()


def test_document(background: _Background) -> None:
    document = httpx.get(f"{background.url}/openapi.json").json()
    operations = [
        (path, method, operation) for path, item in document["paths"].items() for method, operation in item.items()
    ]
    assert len(operations) > 15
    for path, method, operation in operations:
        assert operation.get("summary"), (path, method)
        for status, response in operation["responses"].items():
            if int(status) >= 400 and not path.endswith("z"):
                assert list(response["content"]) == ["application/problem+json"], (path, method, status)
    schemas = document["components"]["schemas"]
    assert {"Session", "Turn", "Attachment", "Event", "Problem", "OutputEvent"} <= set(schemas)
    assert "HTTPValidationError" not in schemas
    assert len(schemas["Event"]["oneOf"]) == 27
