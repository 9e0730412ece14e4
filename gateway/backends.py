"""The gRPC services that the gateway translates for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import grpc.aio
from fastapi import Depends, Request
from fleet.session.v1.attachment_service_pb2_grpc import AttachmentServiceStub
from fleet.session.v1.session_service_pb2_grpc import SessionServiceStub

if TYPE_CHECKING:
    from fleet.session.v1.attachment_service_pb2_grpc import AttachmentServiceAsyncStub
    from fleet.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub


@dataclass(frozen=True)
class Backends:
    """Stubs of the session service over one channel."""

    channel: grpc.aio.Channel
    sessions: SessionServiceAsyncStub
    attachments: AttachmentServiceAsyncStub

    @classmethod
    def over(cls, channel: grpc.aio.Channel) -> Backends:
        """Stubs over `channel`, which the caller closes."""
        return cls(channel, SessionServiceStub(channel), AttachmentServiceStub(channel))


def backends(request: Request) -> Backends:
    """The backends of the application that serves `request`."""
    found: Backends = request.app.state.backends
    return found


BackendsDep = Annotated[Backends, Depends(backends)]
"""A route parameter that receives the backends."""
