"""The Root's tools: what the RLM declares, and the handlers of one Turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.rlm.invocation.scope import AsyncToolHandler
from services.rlm.tools import ToolDeclaration
from services.session.attachments.attachment import Attachment
from services.session.running.journal import TurnJournal
from services.session.running.tools.attachment import READ_ATTACHMENT, AttachmentTools, BlobReader
from services.session.running.tools.history import READ_SESSION_HISTORY, HistoryTools
from services.session.running.tools.recursion import RLM_QUERY, RLM_QUERY_BATCHED, RecursionTools
from services.session.turns.turn import HistoryRecord


def declarations(*, recursion: bool) -> tuple[ToolDeclaration, ...]:
    """The Root's tools, in the order in which the model is told of them; children only with recursion on."""
    always = (READ_SESSION_HISTORY, READ_ATTACHMENT)
    return (RLM_QUERY, RLM_QUERY_BATCHED, *always) if recursion else always


def handlers(
    history: Sequence[HistoryRecord],
    attachments: Sequence[Attachment],
    blobs: BlobReader,
    journal: TurnJournal,
    children: RecursionTools | None,
) -> Mapping[str, AsyncToolHandler]:
    """The handlers of one Turn, by tool name."""
    found: dict[str, AsyncToolHandler] = {
        READ_SESSION_HISTORY.name: HistoryTools(history).read_session_history,
        READ_ATTACHMENT.name: AttachmentTools(attachments, blobs, journal.append).read_attachment,
    }
    if children is not None:
        found[RLM_QUERY.name] = children.rlm_query
        found[RLM_QUERY_BATCHED.name] = children.rlm_query_batched
    return found
