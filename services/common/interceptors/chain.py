"""The one gRPC interceptor of a server: it sends every call of all four kinds through a list of layers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import grpc

from services.common.errors import FleetError

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Behaviour = Callable[[Any, Context], Awaitable[Any]]
"""Answers a call: takes the request or the iterator of requests; a streamed response is written to the context."""

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Deserializer = Callable[[bytes], Any]

PUBLIC_SERVICES = ("grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection")
"""Services that probes and tools call: without a credential, and without spans."""


@dataclass(frozen=True)
class Method:
    """The method that is called.

    Attributes:
        service: full name of its service.
        name: its own name.
        request_streaming: whether the caller sends a stream.
        response_streaming: whether the handler sends a stream.
        deserialize: makes a message of the request's bytes.
    """

    service: str
    name: str
    request_streaming: bool
    response_streaming: bool
    deserialize: Deserializer

    @property
    def kind(self) -> str:
        """`unary`, `client_stream`, `server_stream` or `bidi_stream`, as metrics name it."""
        if self.request_streaming:
            return "bidi_stream" if self.response_streaming else "client_stream"
        return "server_stream" if self.response_streaming else "unary"

    @property
    def public(self) -> bool:
        """Whether probes and tools call it."""
        return self.service in PUBLIC_SERVICES


class Layer(Protocol):
    """One interceptor."""

    def wrap(self, behaviour: Behaviour, method: Method) -> Behaviour:
        """A behaviour that does this layer's work around `behaviour`."""
        ...


class InterceptorChain(grpc.aio.ServerInterceptor):
    """Wraps every handler in `layers`, the first one outermost.

    Handlers are coroutine functions or async generators and read a request stream from its iterator. A generator runs
    in the call's own task and is closed there, so that a cancelled call ends it at once.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = tuple(layers)
        self._wrapped: dict[str, tuple[Handler, Handler]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """The wrapped handler of the method; None, as gRPC wants it, for a method that no service has."""
        path = handler_call_details.method
        handler = await continuation(handler_call_details)
        if handler is None:
            return cast(Handler, None)
        known = self._wrapped.get(path)
        if known is None or known[0] is not handler:
            known = (handler, self._wrap(handler, path))
            self._wrapped[path] = known
        return known[1]

    def _wrap(self, handler: Handler, path: str) -> Handler:
        service, _, name = path.strip("/").rpartition("/")
        method = Method(
            service=service,
            name=name,
            request_streaming=handler.request_streaming,
            response_streaming=handler.response_streaming,
            deserialize=handler.request_deserializer or bytes,
        )
        behaviour = _adapt(_function(handler), method)
        for layer in reversed(self._layers):
            behaviour = layer.wrap(behaviour, method)
        return _handler(behaviour, handler)


def _function(handler: Handler) -> Callable[[Any, Any], Any]:
    found = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    if found is None:
        raise TypeError("the handler has no function")
    return found


def _adapt(function: Callable[[Any, Any], Any], method: Method) -> Behaviour:
    async def behaviour(request: Any, context: Context) -> Any:
        try:
            outcome = function(request, context)
        except NotImplementedError as error:
            # What generated base classes raise for a method that a servicer leaves out.
            message = f"{method.service}/{method.name} has no behaviour in this release."
            raise FleetError("UNIMPLEMENTED", message) from error
        if inspect.isasyncgen(outcome):
            async with aclosing(outcome):
                async for response in outcome:
                    await context.write(response)
            return None
        return await outcome

    return behaviour


def _handler(behaviour: Behaviour, original: Handler) -> Handler:
    """A handler of the original's kind; requests arrive as bytes, for the validation layer to read."""
    make: Any = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[original.request_streaming, original.response_streaming]
    made: Handler = make(behaviour, request_deserializer=None, response_serializer=original.response_serializer)
    return made
