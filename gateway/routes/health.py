"""Liveness, readiness and metrics of the gateway."""

from __future__ import annotations

import grpc.aio
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from gateway.backends import BackendsDep

router = APIRouter(tags=["health"])

READY_TIMEOUT_SECONDS = 2.0
"""How long the session service may take to say that it serves."""


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process lives; depends on nothing else."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(services: BackendsDep, request: Request) -> Response:
    """Say whether Turns can be run: the session service serves and the gateway isn't draining."""
    status = "draining" if request.app.state.draining.is_set() else await _session_status(services)
    return JSONResponse({"status": status}, 200 if status == "ok" else 503)


@router.get("/metrics")
async def metrics() -> Response:
    """Return Prometheus metrics."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


async def _session_status(services: BackendsDep) -> str:
    stub = health_pb2_grpc.HealthStub(services.channel)
    try:
        answer = await stub.Check(  # type: ignore[attr-defined] # the stub package leaves methods out
            health_pb2.HealthCheckRequest(), timeout=READY_TIMEOUT_SECONDS
        )
    except grpc.aio.AioRpcError:
        return "session service unreachable"
    serving = answer.status == health_pb2.HealthCheckResponse.SERVING
    return "ok" if serving else "session service not serving"
