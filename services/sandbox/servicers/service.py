"""fleet.sandbox.v1.SandboxService over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
from fleet.sandbox.v1 import attach_pb2, lease_pb2, sandbox_service_pb2, sandbox_service_pb2_grpc

from services.common.errors import FleetError
from services.common.request_context import current_principal
from services.sandbox.files.folder import FoundFile
from services.sandbox.files.service import FileService
from services.sandbox.leases.lease import LeaseState
from services.sandbox.runtime import Client
from services.sandbox.service import SandboxService
from services.sandbox.servicers import attach as wire
from services.sandbox.servicers import translate

Context = grpc.aio.ServicerContext[Any, Any]
_PAGE_SIZE = 50


class SandboxServicer(sandbox_service_pb2_grpc.SandboxServiceServicer):
    """Translates; the use cases are in `service.py` and `files.py`."""

    def __init__(self, service: SandboxService, files: FileService) -> None:
        self._service = service
        self._files = files

    async def AcquireLease(  # noqa: N802 - gRPC's name
        self, request: sandbox_service_pb2.AcquireLeaseRequest, context: Context
    ) -> lease_pb2.Lease:
        """Return a READY lease."""
        return translate.lease(await self._service.acquire(current_principal(), translate.acquire_request(request)))

    async def RenewLease(  # noqa: N802 - gRPC's name
        self, request: sandbox_service_pb2.RenewLeaseRequest, context: Context
    ) -> lease_pb2.Lease:
        """Prolong a lease."""
        renewed = await self._service.renew(
            current_principal(),
            translate.lease_id(request.name),
            request.epoch,
            translate.duration(request.ttl),
            idle=request.idle,
            turn=request.turn,
        )
        return translate.lease(renewed)

    async def GetLease(  # noqa: N802 - gRPC's name
        self, request: sandbox_service_pb2.GetLeaseRequest, context: Context
    ) -> lease_pb2.Lease:
        """Return a lease."""
        return translate.lease(await self._service.get(current_principal(), translate.lease_id(request.name)))

    async def ListLeases(  # noqa: N802 - gRPC's name
        self, request: sandbox_service_pb2.ListLeasesRequest, context: Context
    ) -> sandbox_service_pb2.ListLeasesResponse:
        """Return a page of leases."""
        leases, token = await self._service.page(
            current_principal(),
            session=request.session,
            turn=request.turn,
            include_absent=request.include_absent,
            token=request.page_token,
            size=request.page_size or _PAGE_SIZE,
        )
        return sandbox_service_pb2.ListLeasesResponse(leases=map(translate.lease, leases), next_page_token=token)

    async def ReleaseLease(  # noqa: N802 - gRPC's name
        self, request: sandbox_service_pb2.ReleaseLeaseRequest, context: Context
    ) -> sandbox_service_pb2.ReleaseLeaseResponse:
        """End a lease."""
        lease = await self._service.release(current_principal(), translate.lease_id(request.name))
        gone = lease.state is LeaseState.ABSENT
        return sandbox_service_pb2.ReleaseLeaseResponse(confirmed_absent=gone, lease=translate.lease(lease))

    async def Attach(  # noqa: N802 - gRPC's name
        self, request_iterator: AsyncIterator[attach_pb2.AttachRequest], context: Context
    ) -> AsyncIterator[attach_pb2.AttachResponse]:
        """Pass messages between a client and a sandbox until either ends."""
        requests = aiter(request_iterator)
        first = await anext(requests, None)
        if first is None:
            return
        if first.WhichOneof("payload") != "open":
            raise FleetError("SANDBOX_PROTOCOL", "The first message must be open.")
        lease_name, epoch = first.open.lease, first.open.epoch
        _, runtime = await self._service.usable(current_principal(), translate.lease_id(lease_name), epoch)
        client = runtime.attach(epoch)
        sending = asyncio.create_task(_send_all(client, first, requests), name=f"attach {lease_name}")
        try:
            async with aclosing(client.frames()) as arriving:
                async for frame in arriving:
                    yield wire.to_response(frame)
        finally:
            runtime.detach(client)
            sending.cancel()
            await asyncio.wait((sending,))

    async def StageFiles(  # noqa: N802 - gRPC's name
        self, request: sandbox_service_pb2.StageFilesRequest, context: Context
    ) -> sandbox_service_pb2.StageFilesResponse:
        """Put files into a sandbox."""
        files = await self._files.stage(
            current_principal(),
            translate.lease_id(request.lease),
            request.epoch,
            [translate.stage_request(file) for file in request.files],
        )
        return sandbox_service_pb2.StageFilesResponse(files=map(translate.staged, files))

    async def ResolveFiles(  # noqa: N802 - gRPC's name
        self, request: sandbox_service_pb2.ResolveFilesRequest, context: Context
    ) -> sandbox_service_pb2.ResolveFilesResponse:
        """Expand workspace paths into a manifest."""
        found = await self._files.resolve(current_principal(), request.paths, request.max_files, request.max_bytes)
        return sandbox_service_pb2.ResolveFilesResponse(files=map(translate.file_entry, found))

    async def CollectFiles(  # noqa: N802 - gRPC's name
        self, request: sandbox_service_pb2.CollectFilesRequest, context: Context
    ) -> AsyncIterator[sandbox_service_pb2.CollectFilesResponse]:
        """Read declared files of a sandbox."""
        parts = self._files.collect(
            current_principal(), translate.lease_id(request.lease), request.epoch, request.paths, request.max_bytes
        )
        async with aclosing(parts) as arriving:
            async for part in arriving:
                if isinstance(part, FoundFile):
                    yield sandbox_service_pb2.CollectFilesResponse(file=translate.file_entry(part))
                else:
                    yield sandbox_service_pb2.CollectFilesResponse(chunk=part)


async def _send_all(
    client: Client, first: attach_pb2.AttachRequest, requests: AsyncIterator[attach_pb2.AttachRequest]
) -> None:
    """Pass a client's requests on; what is wrong with one ends the stream with that error."""
    try:
        await client.send(wire.to_frame(first))
        async for request in requests:
            if request.WhichOneof("payload") == "open" and (request.open.lease, request.open.epoch) != (
                first.open.lease,
                first.open.epoch,
            ):
                raise FleetError("SANDBOX_PROTOCOL", "A stream stays with the lease and epoch that it opened.")
            await client.send(wire.to_frame(request))
    except FleetError as error:
        client.end(error)
