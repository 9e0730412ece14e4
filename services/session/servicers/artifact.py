"""fleet.session.v1.ArtifactService: no Turn can publish a file yet, so there is none to be found."""

# ruff: noqa: N802  The contract names the methods.

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc
from fleet.session.v1 import artifact_service_pb2 as pb
from fleet.session.v1 import artifact_service_pb2_grpc

from services.common.request_context import current_principal
from services.session import names
from services.session.refusals import artifact_not_found, page_token_invalid
from services.session.turns.service import TurnService

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class ArtifactServicer(artifact_service_pb2_grpc.ArtifactServiceServicer):
    """Answers as for a workspace without artifacts."""

    def __init__(self, turns: TurnService) -> None:
        self._turns = turns

    async def GetArtifact(self, request: pb.GetArtifactRequest, context: Context) -> pb.Artifact:
        """There is no such artifact."""
        raise artifact_not_found(request.name)

    async def ListArtifacts(self, request: pb.ListArtifactsRequest, context: Context) -> pb.ListArtifactsResponse:
        """The artifacts of a Turn: none."""
        session_id, turn_id = names.turn_ids(request.parent)
        await self._turns.get(current_principal().workspace, turn_id, session_id)
        if request.page_token:
            raise page_token_invalid()
        return pb.ListArtifactsResponse()

    async def DownloadArtifact(
        self, request: pb.DownloadArtifactRequest, context: Context
    ) -> AsyncIterator[pb.DownloadArtifactResponse]:
        """There is no such artifact."""
        raise artifact_not_found(request.name)
        yield pb.DownloadArtifactResponse()
