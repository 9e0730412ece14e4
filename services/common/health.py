"""The health of a server, under the names that probes and load balancers ask for."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Health:
    """Answers `grpc.health.v1.Health` for a server.

    Names: the empty one and each service's full name follow readiness, as `readiness` does; `startup` is good from
    the first readiness on; `liveness` is good while the server runs.

    Args:
        services: full names of the server's services.
    """

    def __init__(self, services: Sequence[str]) -> None:
        self._servicer = health.aio.HealthServicer()
        self._following = ("", "readiness", *services)

    def register(self, server: grpc.aio.Server) -> None:
        """Add the health service to `server`."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def started(self) -> None:
        """The server listens, and isn't ready yet."""
        await self._servicer.set("liveness", SERVING)
        await self._servicer.set("startup", NOT_SERVING)
        await self._follow(False)

    async def set_ready(self, ready: bool) -> None:
        """Whether the server takes calls."""
        if ready:
            await self._servicer.set("startup", SERVING)
        await self._follow(ready)

    async def _follow(self, ready: bool) -> None:
        for name in self._following:
            await self._servicer.set(name, SERVING if ready else NOT_SERVING)
