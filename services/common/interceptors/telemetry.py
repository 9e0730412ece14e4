"""The OpenTelemetry layer: one server span a call, child of the span that the caller's metadata names."""

from __future__ import annotations

from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace

from services.common.interceptors.chain import Behaviour, Context, Method
from services.common.interceptors.status import call_code


class TelemetryLayer:
    """Opens the span in the handler's own task, so that it ends there even when the call is cancelled."""

    def wrap(self, behaviour: Behaviour, method: Method) -> Behaviour:
        """A behaviour inside its span; public services get none."""
        if method.public:
            return behaviour
        attributes = {"rpc.system": "grpc", "rpc.service": method.service, "rpc.method": method.name}
        name = f"{method.service}/{method.name}"

        async def call(request: Any, context: Context) -> Any:
            carrier = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
            token = otel_context.attach(propagate.extract(carrier))
            try:
                tracer = trace.get_tracer("fleet")
                with tracer.start_as_current_span(
                    name,
                    kind=trace.SpanKind.SERVER,
                    attributes=attributes,
                    record_exception=False,
                    set_status_on_exception=False,
                ) as span:
                    failure: BaseException | None = None
                    try:
                        return await behaviour(request, context)
                    except BaseException as error:
                        failure = error
                        raise
                    finally:
                        _finish(span, call_code(context, failure).value)
            finally:
                otel_context.detach(token)

        return call


def _finish(span: trace.Span, code: tuple[int, str]) -> None:
    span.set_attribute("rpc.grpc.status_code", code[0])
    if code[0] != 0:
        span.set_status(trace.StatusCode.ERROR, code[1])
