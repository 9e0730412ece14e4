"""Rows to domain objects and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from services.session.attachments.attachment import Attachment
from services.session.sessions.session import Session, SessionState
from services.session.store.models import AttachmentRow, SessionRow, TurnRow
from services.session.turns.spending import BudgetLine, Limits, ModelUsage, Usage
from services.session.turns.turn import SkillSelection, Termination, Turn, TurnError, TurnInput, TurnState


def session_of(row: SessionRow, running_turn: str | None) -> Session:
    """The Session of a row, with the id of its running Turn."""
    return Session(
        id=row.id,
        workspace=row.workspace,
        title=row.title,
        state=SessionState(row.state),
        checkpoint_version=row.checkpoint_version,
        create_time=row.create_time,
        update_time=row.update_time,
        revision=row.revision,
        labels=row.labels,
        running_turn=running_turn,
    )


def row_of_session(session: Session) -> SessionRow:
    """The row of a Session that is to be inserted."""
    return SessionRow(
        id=session.id,
        workspace=session.workspace,
        title=session.title,
        state=session.state.value,
        checkpoint_version=session.checkpoint_version,
        revision=session.revision,
        labels=dict(session.labels),
        create_time=session.create_time,
        update_time=session.update_time,
    )


def turn_of(row: TurnRow) -> Turn:
    """The Turn of a row."""
    return Turn(
        id=row.id,
        session=row.session_id,
        workspace=row.workspace,
        request_id=row.request_id,
        fingerprint=row.fingerprint,
        epoch=row.epoch,
        state=TurnState(row.state),
        input=_input_of(row.text, row.choices),
        limits=Limits(**row.limits),
        create_time=row.create_time,
        start_time=row.start_time,
        end_time=row.end_time,
        answer=row.answer,
        outputs=row.outputs,
        termination=Termination(row.termination) if row.termination else None,
        checkpoint_version=row.checkpoint_version,
        usage=usage_of(row.usage),
        budget=budget_of(row.budget),
        iterations=row.iterations,
        trace_id=row.trace_id,
        error=TurnError(**row.error) if row.error else None,
    )


def row_of_turn(turn: Turn) -> TurnRow:
    """The row of a Turn that is to be inserted; it has not ended."""
    return TurnRow(
        id=turn.id,
        session_id=turn.session,
        workspace=turn.workspace,
        request_id=turn.request_id,
        fingerprint=turn.fingerprint,
        epoch=turn.epoch,
        state=turn.state.value,
        text=turn.input.text,
        choices=_choices(turn.input),
        limits=asdict(turn.limits),
        create_time=turn.create_time,
        usage=usage_json(turn.usage),
        budget=budget_json(turn.budget),
        iterations=turn.iterations,
        trace_id=turn.trace_id,
    )


def attachment_of(row: AttachmentRow) -> Attachment:
    """The attachment of a row."""
    return Attachment(
        id=row.id,
        workspace=row.workspace,
        filename=row.filename,
        content_type=row.content_type,
        byte_size=row.byte_size,
        sha256=row.sha256,
        create_time=row.create_time,
        blob_key=row.blob_key,
    )


def row_of_attachment(attachment: Attachment) -> AttachmentRow:
    """The row of an attachment that is to be inserted."""
    return AttachmentRow(**asdict(attachment))


def usage_json(usage: Usage) -> dict[str, Any]:
    """A Usage as JSON."""
    return asdict(usage)


def usage_of(value: Mapping[str, Any]) -> Usage:
    """A Usage from its JSON."""
    return Usage(tuple(ModelUsage(**each) for each in value["models"]), value["children"])


def budget_json(lines: Sequence[BudgetLine]) -> list[Any]:
    """Budget lines as JSON."""
    return [[line.dimension, line.used, line.limit] for line in lines]


def budget_of(value: Sequence[Any]) -> tuple[BudgetLine, ...]:
    """Budget lines from their JSON."""
    return tuple(BudgetLine(*line) for line in value)


def _choices(given: TurnInput) -> dict[str, Any]:
    return {
        "attachments": list(given.attachments),
        "skills": [asdict(skill) for skill in given.skills],
        "limits": asdict(given.limits),
        "timeout_seconds": given.timeout_seconds,
    }


def _input_of(text: str, choices: Mapping[str, Any]) -> TurnInput:
    return TurnInput(
        text=text,
        attachments=tuple(choices["attachments"]),
        skills=tuple(SkillSelection(**skill) for skill in choices["skills"]),
        limits=Limits(**choices["limits"]),
        timeout_seconds=choices["timeout_seconds"],
    )
