"""Between the protobuf messages about leases and files and the broker's own values."""

from __future__ import annotations

from datetime import datetime, timedelta

from fleet.sandbox.v1 import files_pb2, lease_pb2, sandbox_service_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from services.sandbox.files.folder import FoundFile
from services.sandbox.files.service import StagedFile, StageRequest
from services.sandbox.leases.lease import Lease, LeaseState, Owner
from services.sandbox.providers.base import Kind
from services.sandbox.service import AcquireRequest

_KINDS = {Kind.ROOT: lease_pb2.LEASE_KIND_ROOT, Kind.CHILD: lease_pb2.LEASE_KIND_CHILD}
_FROM_KINDS = {number: kind for kind, number in _KINDS.items()}


def lease_id(name: str) -> str:
    """Return the id in "leases/{id}"."""
    return name.removeprefix("leases/")


def _timestamp(moment: datetime) -> Timestamp:
    result = Timestamp()
    result.FromDatetime(moment)
    return result


def lease(value: Lease) -> lease_pb2.Lease:
    """Return a lease's message."""
    return lease_pb2.Lease(
        name=value.name,
        kind=_KINDS[value.kind],
        state=lease_pb2.LeaseState.Value(f"LEASE_STATE_{LeaseState(value.state).name}"),
        owner=lease_pb2.LeaseOwner(session=value.owner.session, turn=value.owner.turn, child=value.owner.child),
        workspace=value.workspace,
        epoch=value.epoch,
        endpoint=value.endpoint,
        isolation=value.isolation,
        mount_root=value.mount_root,
        idle=value.idle_since is not None,
        expire_time=_timestamp(value.expire_time),
        create_time=_timestamp(value.create_time),
        last_error=value.last_error,
        warm=value.warm,
    )


def acquire_request(message: sandbox_service_pb2.AcquireLeaseRequest) -> AcquireRequest:
    """Return what is wanted."""
    owner = message.owner
    return AcquireRequest(
        message.request_id,
        _FROM_KINDS[message.kind],
        Owner(owner.session, owner.turn, owner.child),
        duration(message.ttl),
        duration(message.wait) if message.HasField("wait") else None,
    )


def duration(message: Duration) -> timedelta:
    """Return a duration."""
    return timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)


def stage_request(message: files_pb2.StageFile) -> StageRequest:
    """Return a file to stage."""
    source = message.WhichOneof("source")
    return StageRequest(
        message.path,
        message.byte_size,
        message.sha256,
        blob_key=message.blob_key if source == "blob_key" else None,
        workspace_path=message.workspace_path if source == "workspace_path" else None,
        inline=message.inline if source == "inline" else None,
    )


def file_entry(file: FoundFile, local_path: str = "") -> files_pb2.FileEntry:
    """Return a file's message."""
    return files_pb2.FileEntry(path=file.path, byte_size=file.byte_size, sha256=file.sha256, local_path=local_path)


def staged(file: StagedFile) -> files_pb2.FileEntry:
    """Return a staged file's message."""
    return file_entry(file.file, file.local_path)
