"""A small service of all four kinds of methods, made of generic handlers over existing messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from fleet.session.v1 import session_pb2

from services.common.errors import FleetError
from services.common.request_context import current, current_principal

SERVICE = "fleet.test.v1.EchoService"
Session = session_pb2.Session


class EchoServicer:
    """Answers with what it was sent; some titles make it misbehave."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.seen: list[Any] = []

    async def unary(self, request: Session, context: Any) -> Session:
        return await self._answer(request)

    async def server_stream(self, request: Session, context: Any) -> AsyncIterator[Session]:
        try:
            for _ in range(3):
                yield await self._answer(request)
        finally:
            self.seen.append("closed")

    async def client_stream(self, requests: AsyncIterator[Session], context: Any) -> Session:
        last = Session()
        async for request in requests:
            last = await self._answer(request)
        return last

    async def bidi_stream(self, requests: AsyncIterator[Session], context: Any) -> AsyncIterator[Session]:
        async for request in requests:
            yield await self._answer(request)

    async def written_stream(self, request: Session, context: Any) -> None:
        await context.write(await self._answer(request))

    async def _answer(self, request: Session) -> Session:
        if request.title == "hang":
            self.entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if request.title == "fleet":
            raise FleetError("TURN_IN_PROGRESS", "Another Turn runs.", {"turn": "turns/a"}, retry_after=1.5)
        if request.title == "bug":
            raise RuntimeError("postgres://user:secret@host/db is down")
        if request.title == "surrogate":
            return Session(title="\ud800")
        if request.title == "timeout":
            raise TimeoutError("something inside")
        principal = current_principal()
        self.seen.append((current().request_id, principal))
        return Session(title=request.title, labels={"workspace": principal.workspace, "depth": str(principal.depth)})

    def add_to(self, server: grpc.aio.Server) -> None:
        def make(factory: Any, function: Any) -> Any:
            return factory(
                function, request_deserializer=Session.FromString, response_serializer=Session.SerializeToString
            )

        def left_out(request: Session, context: Any) -> Session:
            context.set_code(grpc.StatusCode.UNIMPLEMENTED)
            raise NotImplementedError("Method not implemented!")

        handlers = {
            "Unary": make(grpc.unary_unary_rpc_method_handler, self.unary),
            "ServerStream": make(grpc.unary_stream_rpc_method_handler, self.server_stream),
            "ClientStream": make(grpc.stream_unary_rpc_method_handler, self.client_stream),
            "BidiStream": make(grpc.stream_stream_rpc_method_handler, self.bidi_stream),
            "WrittenStream": make(grpc.unary_stream_rpc_method_handler, self.written_stream),
            "LeftOut": make(grpc.unary_unary_rpc_method_handler, left_out),
            "LeftOutStream": make(grpc.unary_stream_rpc_method_handler, left_out),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        server.add_registered_method_handlers(SERVICE, handlers)


class EchoStub:
    """Calls an EchoServicer."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        def make(factory: Any, name: str) -> Any:
            return factory(
                f"/{SERVICE}/{name}",
                request_serializer=Session.SerializeToString,
                response_deserializer=Session.FromString,
                _registered_method=True,
            )

        self.unary = make(channel.unary_unary, "Unary")
        self.server_stream = make(channel.unary_stream, "ServerStream")
        self.client_stream = make(channel.stream_unary, "ClientStream")
        self.bidi_stream = make(channel.stream_stream, "BidiStream")
        self.written_stream = make(channel.unary_stream, "WrittenStream")
        self.left_out = make(channel.unary_unary, "LeftOut")
        self.left_out_stream = make(channel.unary_stream, "LeftOutStream")
        self.unknown = make(channel.unary_unary, "Unknown")
        self.raw = channel.unary_unary(f"/{SERVICE}/Unary")
        self.raw_stream = channel.stream_stream(f"/{SERVICE}/BidiStream")
