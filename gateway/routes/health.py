"""Liveness, readiness and metrics of the gateway."""

from __future__ import annotations

import grpc.aio
from fastapi import APIRouter, Response
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from gateway.backends import BackendsDep
from gateway.event_streams import EventStreamsDep
from gateway.openapi import answer
from gateway.replies import json_reply

router = APIRouter(tags=["health"])

READY_TIMEOUT_SECONDS = 2.0
"""How long the session service may take to say that it serves."""

RETRY_AFTER = "2"
"""Seconds after which readiness is worth asking for again."""


@router.get("/healthz", responses=answer(200, "It lives.", "Health"))
async def healthz() -> Response:
    """Say that the process lives; depends on nothing else."""
    return json_reply({"status": "ok"})


@router.get(
    "/readyz", responses={**answer(200, "It serves.", "Health"), **answer(503, "It can't run Turns.", "Health")}
)
async def readyz(services: BackendsDep, streams: EventStreamsDep) -> Response:
    """Say whether Turns can be run: the session service serves and the gateway isn't draining."""
    status = "draining" if streams.draining.is_set() else await _session_status(services)
    if status == "ok":
        return json_reply({"status": status})
    return json_reply({"status": status}, 503, {"Retry-After": RETRY_AFTER})


@router.get("/metrics", responses={200: {"description": "Prometheus text.", "content": {"text/plain": {}}}})
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
