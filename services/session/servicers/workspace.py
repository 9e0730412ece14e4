"""fleet.session.v1.WorkspaceService: part of the contract, without behaviour in this release."""

# ruff: noqa: N802  The contract names the methods.

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc
from fleet.session.v1 import workspace_service_pb2 as pb
from fleet.session.v1 import workspace_service_pb2_grpc
from google.protobuf.empty_pb2 import Empty

from services.session.refusals import unimplemented

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class WorkspaceServicer(workspace_service_pb2_grpc.WorkspaceServiceServicer):
    """Every method answers UNIMPLEMENTED."""

    async def ListFiles(self, request: pb.ListFilesRequest, context: Context) -> pb.ListFilesResponse:
        """Not in this release."""
        raise unimplemented("WorkspaceService.ListFiles")

    async def StatFile(self, request: pb.StatFileRequest, context: Context) -> pb.WorkspaceFile:
        """Not in this release."""
        raise unimplemented("WorkspaceService.StatFile")

    async def ReadFile(self, request: pb.ReadFileRequest, context: Context) -> pb.ReadFileResponse:
        """Not in this release."""
        raise unimplemented("WorkspaceService.ReadFile")

    async def WriteFile(self, request: pb.WriteFileRequest, context: Context) -> pb.WorkspaceFile:
        """Not in this release."""
        raise unimplemented("WorkspaceService.WriteFile")

    async def AppendFile(self, request: pb.AppendFileRequest, context: Context) -> pb.WorkspaceFile:
        """Not in this release."""
        raise unimplemented("WorkspaceService.AppendFile")

    async def EditFile(self, request: pb.EditFileRequest, context: Context) -> pb.WorkspaceFile:
        """Not in this release."""
        raise unimplemented("WorkspaceService.EditFile")

    async def DeleteFile(self, request: pb.DeleteFileRequest, context: Context) -> Empty:
        """Not in this release."""
        raise unimplemented("WorkspaceService.DeleteFile")

    async def DownloadFile(
        self, request: pb.DownloadFileRequest, context: Context
    ) -> AsyncIterator[pb.DownloadFileResponse]:
        """Not in this release."""
        raise unimplemented("WorkspaceService.DownloadFile")
        yield pb.DownloadFileResponse()

    async def ListMemories(self, request: pb.ListMemoriesRequest, context: Context) -> pb.ListMemoriesResponse:
        """Not in this release."""
        raise unimplemented("WorkspaceService.ListMemories")

    async def AddMemory(self, request: pb.AddMemoryRequest, context: Context) -> pb.Memory:
        """Not in this release."""
        raise unimplemented("WorkspaceService.AddMemory")

    async def EditMemory(self, request: pb.EditMemoryRequest, context: Context) -> pb.Memory:
        """Not in this release."""
        raise unimplemented("WorkspaceService.EditMemory")

    async def ForgetMemory(self, request: pb.ForgetMemoryRequest, context: Context) -> Empty:
        """Not in this release."""
        raise unimplemented("WorkspaceService.ForgetMemory")
