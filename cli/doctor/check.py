"""What a check is, and how its result reads."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

import grpc.aio
import httpx

from config.problem import ConfigError
from services.common.errors import FleetError
from services.common.rpc_status import from_rpc_error

TIMEOUT_SECONDS = 120.0
"""How long one check may take."""


@dataclass(frozen=True)
class Check:
    """One thing to check.

    Attributes:
        name: what is checked.
        run: does it; returns a few words on what was found.
        remedy: what to do when it fails.
    """

    name: str
    run: Callable[[], Awaitable[str]]
    remedy: str


@dataclass(frozen=True)
class Result:
    """How a check went; `ms` is how long it took."""

    name: str
    ok: bool
    ms: float
    detail: str
    remedy: str

    def as_json(self) -> dict[str, Any]:
        """The result as one JSON object."""
        return asdict(self)


class CheckFailed(Exception):
    """A check found something wrong; its text says what."""


async def run_check(check: Check) -> Result:
    """Run one check; failures become its result."""
    started = time.perf_counter()
    try:
        detail, ok = await check.run(), True
    except (CheckFailed, ConfigError, OSError, httpx.HTTPError) as error:
        detail, ok = str(error) or type(error).__name__, False
    except FleetError as error:
        detail, ok = f"{error.reason}: {error.message}", False
    except grpc.aio.AioRpcError as error:
        known = from_rpc_error(error)
        detail, ok = f"{known.reason}: {known.message}", False
    return Result(check.name, ok, (time.perf_counter() - started) * 1000, detail, "" if ok else check.remedy)
