"""The metrics layer: the usual three gRPC server metrics, by service, method and kind."""

from __future__ import annotations

import time
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from services.common.interceptors.chain import Behaviour, Context, Method
from services.common.interceptors.status import call_code

_LABELS = ("grpc_type", "grpc_service", "grpc_method")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800)


class GrpcMetrics:
    """The collectors; one set a registry.

    Args:
        registry: where they are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.started = Counter("grpc_server_started", "RPCs started on the server.", _LABELS, registry=registry)
        self.handled = Counter(
            "grpc_server_handled", "RPCs completed on the server.", (*_LABELS, "grpc_code"), registry=registry
        )
        self.seconds = Histogram(
            "grpc_server_handling_seconds", "Duration of RPCs.", _LABELS, registry=registry, buckets=_BUCKETS
        )


PROCESS_METRICS = GrpcMetrics(REGISTRY)
"""The collectors of this process, in Prometheus's default registry."""


class MetricsLayer:
    """Counts calls and measures them.

    Args:
        metrics: the collectors.
    """

    def __init__(self, metrics: GrpcMetrics = PROCESS_METRICS) -> None:
        self._metrics = metrics

    def wrap(self, behaviour: Behaviour, method: Method) -> Behaviour:
        """A behaviour that is counted."""
        labels = (method.kind, method.service, method.name)
        started = self._metrics.started.labels(*labels)
        seconds = self._metrics.seconds.labels(*labels)
        handled = self._metrics.handled

        async def call(request: Any, context: Context) -> Any:
            started.inc()
            begin = time.perf_counter()
            failure: BaseException | None = None
            try:
                return await behaviour(request, context)
            except BaseException as error:
                failure = error
                raise
            finally:
                handled.labels(*labels, call_code(context, failure).name).inc()
                seconds.observe(time.perf_counter() - begin)

        return call
