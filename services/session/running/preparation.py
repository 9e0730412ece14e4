"""Step 2 of a Turn's life: its ledger, its runtime, its staged attachments and its inputs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fleet.recursion.v1 import child_pb2
from fleet.sandbox.v1 import files_pb2
from fleet.session.v1 import turn_event_pb2 as pb

from services.common.errors import FleetError
from services.rlm.contract.dto import (
    MAX_PREVIEWS,
    AttachmentInput,
    MessagePreview,
    SessionContextInput,
    WorkspaceInput,
    preview,
)
from services.rlm.contract.inputs import root_inputs
from services.session.attachments.attachment import Attachment
from services.session.runner import TurnRecord
from services.session.running.clients.recursion import RecursionClient, TurnBooks, TurnTerms
from services.session.running.clients.sandbox import LeaseHandle
from services.session.running.residents.registry import Checkout, ResidentRegistry
from services.session.running.residents.resident import SessionKey
from services.session.running.residents.runtime import TurnRuntime
from services.session.running.window import TurnWindow
from services.session.turns.turn import HistoryRecord, TurnJob

_LEASE_REASONS = ("LEASE_", "SANDBOX_", "STALE_EPOCH")


@dataclass(frozen=True)
class PreparationParts:
    """What preparing a Turn needs.

    Attributes:
        registry: the resident runtimes.
        make: makes a runtime for a Session and the Turn that needs it first; it isn't open yet.
        stage: puts files into a sandbox.
        recursion: opens ledgers.
        fingerprint: of the Root's RLM.
    """

    registry: ResidentRegistry[TurnRuntime]
    make: Callable[[SessionKey, str], TurnRuntime]
    stage: Callable[[LeaseHandle, Sequence[files_pb2.StageFile]], Awaitable[object]]
    recursion: RecursionClient
    fingerprint: str


@dataclass(frozen=True)
class Prepared:
    """What a Turn runs with.

    Attributes:
        books: its open ledger.
        checkout: its runtime.
        history: the Session's committed Turns.
        inputs: of the Root Signature.
    """

    books: TurnBooks
    checkout: Checkout[TurnRuntime]
    history: tuple[HistoryRecord, ...]
    inputs: Mapping[str, Any]


class TurnPreparation:
    """Prepares one Turn and knows what is to be undone, however far it came.

    Attributes:
        opening: whether a ledger may have been opened.
        checkout: the runtime that was lent, if any.
    """

    def __init__(self, job: TurnJob, record: TurnRecord, window: TurnWindow, parts: PreparationParts) -> None:
        """Begin with nothing held."""
        self._job = job
        self._record = record
        self._window = window
        self._parts = parts
        self.opening = False
        self.checkout: Checkout[TurnRuntime] | None = None

    async def prepare(self) -> Prepared:
        """Open the ledger, get a runtime, stage the attachments and build the inputs.

        Raises:
            FleetError: why the Turn can't be prepared; `undo` gives back what is held.
        """
        books = await self._open()
        self.checkout = await self._check_out()
        lease = self.checkout.resident.runtime.lease
        self._tell_ready(self.checkout, lease)
        await self._stage(lease)
        history = await self._record.history()
        inputs = root_inputs(
            request=self._job.turn.input.text,
            history=[{"request": record.request, "answer": record.answer} for record in history],
            session_context=session_context(self._job, history, lease.mount_root),
            attachments=[attachment_input(attachment) for attachment in self._job.attachments],
            mount_root=lease.mount_root,
        )
        return Prepared(books, self.checkout, history, inputs)

    def undo(self, reason: str) -> None:
        """Give the runtime back as unusable; its lease is released in the background."""
        checkout, self.checkout = self.checkout, None
        if checkout is not None:
            self._parts.registry.abandon(checkout, reason)

    def keep(self) -> None:
        """Give the runtime back as healthy, after the Turn's commit."""
        checkout, self.checkout = self.checkout, None
        if checkout is not None:
            self._parts.registry.commit(checkout)

    async def _open(self) -> TurnBooks:
        turn = self._job.turn
        terms = TurnTerms(
            turn=turn.id,
            session=turn.session,
            epoch=self._job.epoch,
            limits=turn.limits.as_mapping(),
            deadline=self._window.deadline_time,
            work_deadline=self._window.work_deadline_time,
        )
        self.opening = True
        with _naming("The recursion service"):
            return await self._parts.recursion.open(terms)

    async def _check_out(self) -> Checkout[TurnRuntime]:
        key = SessionKey(self._job.workspace, self._job.turn.session)
        turn = self._job.turn.id
        with _naming("The sandbox broker"):
            return await self._parts.registry.checkout(
                key,
                turn,
                self._parts.fingerprint,
                lambda: self._parts.make(key, turn),
            )

    def _tell_ready(self, checkout: Checkout[TurnRuntime], lease: LeaseHandle) -> None:
        self._record.append(
            "sandbox_ready",
            pb.SandboxReady(
                lease=lease.name,
                resident=checkout.reused,
                rotation_reason=checkout.rotation_reason,
                duration_ms=checkout.duration_ms,
                isolation=lease.isolation,
            ),
        )

    async def _stage(self, lease: LeaseHandle) -> None:
        files = [stage_file(attachment) for attachment in self._job.attachments]
        if not files:
            return
        try:
            with _naming("The sandbox broker"):
                await self._parts.stage(lease, files)
        except FleetError as error:
            if error.reason == "UNAVAILABLE" or error.reason.startswith(_LEASE_REASONS):
                raise
            message = f"The attachments can't be put into the sandbox: {error.message}"
            raise FleetError("PREPARATION_FAILED", message, error.metadata) from error


def attachment_path(attachment: Attachment) -> str:
    """Where an attachment lies, relative to the mount root, and how everybody names it."""
    return f"attachments/{attachment.id}/{attachment.filename}"


def attachment_input(attachment: Attachment) -> AttachmentInput:
    """An attachment as the Root sees it."""
    return AttachmentInput(
        id=attachment.id,
        filename=attachment.filename,
        content_type=attachment.content_type,
        byte_size=attachment.byte_size,
        sha256=attachment.sha256,
        path=attachment_path(attachment),
    )


def stage_file(attachment: Attachment) -> files_pb2.StageFile:
    """An attachment as the broker stages it."""
    return files_pb2.StageFile(
        blob_key=attachment.blob_key,
        path=attachment_path(attachment),
        byte_size=attachment.byte_size,
        sha256=attachment.sha256,
    )


def child_attachment(attachment: Attachment) -> child_pb2.ChildAttachment:
    """An attachment as children may get it."""
    return child_pb2.ChildAttachment(
        path=attachment_path(attachment),
        blob_key=attachment.blob_key,
        byte_size=attachment.byte_size,
        sha256=attachment.sha256,
    )


def session_context(job: TurnJob, history: Sequence[HistoryRecord], mount_root: str) -> SessionContextInput:
    """Where the conversation stands: counts, and the beginnings of its latest messages."""
    latest = history[-(MAX_PREVIEWS // 2) :]
    recent: list[MessagePreview] = []
    for record in latest:
        recent.append(MessagePreview(role="user", text=preview(record.request)))
        recent.append(MessagePreview(role="assistant", text=preview(record.answer)))
    return SessionContextInput(
        session_id=job.turn.session,
        checkpoint_version=len(history),
        message_count=2 * len(history),
        recent=tuple(recent),
        workspace=WorkspaceInput(available=True, root=mount_root, file_count=len(job.attachments)),
    )


@contextmanager
def _naming(service: str) -> Iterator[None]:
    """Have an unreachable service named in the error that a client sees."""
    try:
        yield
    except FleetError as error:
        if error.reason != "UNAVAILABLE":
            raise
        raise FleetError("UNAVAILABLE", f"{service} can't be reached.") from error
