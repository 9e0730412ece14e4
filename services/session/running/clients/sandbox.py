"""The sandbox broker as the session service uses it: Root leases and staged attachments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc
from fleet.sandbox.v1 import files_pb2, lease_pb2, sandbox_service_pb2, sandbox_service_pb2_grpc
from google.protobuf.duration_pb2 import Duration

from services.common.errors import FleetError
from services.common.rpc_status import translated_errors

_PAGE = 200
_STAGE_FILES = 32


@dataclass(frozen=True)
class LeaseHandle:
    """A lease that is held.

    Attributes:
        name: `leases/{id}`.
        epoch: every call about it names this number.
        mount_root: absolute path in the sandbox below which staged files lie.
        isolation: the isolation that was achieved.
        endpoint: the replica that holds the sandbox; empty when any does.
    """

    name: str
    epoch: int
    mount_root: str
    isolation: str
    endpoint: str


@dataclass(frozen=True)
class LeaseOwner:
    """Whom a Root lease works for: a Session and the Turn that asked for it, both ids."""

    session: str
    turn: str


class SandboxClient:
    """Calls to the broker, with their failures as FleetError; those about a sandbox go to the replica that holds it."""

    def __init__(self, address: str, connect: Callable[[str], grpc.aio.Channel]) -> None:
        """Begin with the broker's own address.

        Args:
            address: where any replica answers.
            connect: opens a channel to an address, which adds the service's own token.
        """
        self._address = address
        self._connect = connect
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._stub = self.stub_at("")

    def stub_at(self, endpoint: str) -> sandbox_service_pb2_grpc.SandboxServiceAsyncStub:
        """The stub of the replica at `endpoint`; of any replica when that is empty."""
        address = endpoint or self._address
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._connect(address)
        return sandbox_service_pb2_grpc.SandboxServiceStub(channel)

    async def close(self) -> None:
        """Close every channel."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    async def acquire(self, request_id: str, owner: LeaseOwner, ttl: float, wait: float) -> LeaseHandle:
        """Acquire a Root lease.

        Args:
            request_id: the same id returns the same lease.
            owner: whom it works for.
            ttl: seconds that it lives unless renewed.
            wait: seconds to wait for capacity.

        Raises:
            FleetError: SANDBOX_CAPACITY, SANDBOX_START_FAILED, or the broker can't be reached.
        """
        request = sandbox_service_pb2.AcquireLeaseRequest(
            request_id=request_id,
            kind=lease_pb2.LEASE_KIND_ROOT,
            owner=lease_pb2.LeaseOwner(session=owner.session, turn=owner.turn),
            ttl=_duration(ttl),
            wait=_duration(wait),
        )
        with translated_errors():
            lease = await self._stub.AcquireLease(request)
        return LeaseHandle(lease.name, lease.epoch, lease.mount_root, lease.isolation, lease.endpoint)

    async def renew(self, lease: LeaseHandle, ttl: float, *, idle: bool, turn: str) -> None:
        """Prolong a lease by `ttl` seconds from here.

        Raises:
            FleetError: LEASE_LOST and its like when it is gone, or the broker can't be reached.
        """
        request = sandbox_service_pb2.RenewLeaseRequest(
            name=lease.name, epoch=lease.epoch, ttl=_duration(ttl), idle=idle, turn=turn
        )
        with translated_errors():
            await self._stub.RenewLease(request)

    async def release(self, name: str) -> bool:
        """End a lease; whether its sandbox is confirmed gone.

        Raises:
            FleetError: the broker can't be reached.
        """
        try:
            with translated_errors():
                response = await self._stub.ReleaseLease(sandbox_service_pb2.ReleaseLeaseRequest(name=name))
        except FleetError as error:
            if error.reason == "LEASE_NOT_FOUND":
                return True
            raise
        return bool(response.confirmed_absent)

    async def root_leases(self, session: str, turn: str = "") -> list[str]:
        """Names of a Session's Root leases that aren't confirmed gone.

        Args:
            session: the Session's id.
            turn: only those of this Turn, when not empty.

        Raises:
            FleetError: the broker can't be reached.
        """
        names: list[str] = []
        token = ""
        while True:
            request = sandbox_service_pb2.ListLeasesRequest(
                page_size=_PAGE, page_token=token, session=session, turn=turn
            )
            with translated_errors():
                page = await self._stub.ListLeases(request)
            names.extend(
                lease.name
                for lease in page.leases
                if lease.kind == lease_pb2.LEASE_KIND_ROOT and lease.state != lease_pb2.LEASE_STATE_ABSENT
            )
            token = page.next_page_token
            if not token:
                return names

    async def stage(self, lease: LeaseHandle, files: Sequence[files_pb2.StageFile]) -> list[files_pb2.FileEntry]:
        """Put files into the sandbox; returns them in input order, with their places.

        Raises:
            FleetError: a file is missing or not what its manifest says, or the lease is lost.
        """
        stub = self.stub_at(lease.endpoint)
        staged: list[files_pb2.FileEntry] = []
        for start in range(0, len(files), _STAGE_FILES):
            request = sandbox_service_pb2.StageFilesRequest(
                lease=lease.name, epoch=lease.epoch, files=files[start : start + _STAGE_FILES]
            )
            with translated_errors():
                staged.extend((await stub.StageFiles(request)).files)
        return staged


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration
