"""The session service's database: the only place with SQL."""

from __future__ import annotations

from services.common.database import Database
from services.session.store.admission import AdmissionStore, Admitted
from services.session.store.attachments import AttachmentStore
from services.session.store.endings import Ended, EndingStore, LastEvents
from services.session.store.events import EventStore
from services.session.store.owners import Ownership, OwnerStore
from services.session.store.sessions import SessionStore
from services.session.store.turns import TurnStore

__all__ = ["Admitted", "Ended", "LastEvents", "Ownership", "Store"]


class Store:
    """Every table, by what is kept in it.

    Attributes:
        sessions: Sessions.
        turns: Turns, and their progress.
        admission: the beginning of a Turn.
        endings: the end of a Turn.
        events: the event log.
        owners: ownership of Sessions.
        attachments: attachments' metadata.
    """

    def __init__(self, database: Database) -> None:
        self.sessions = SessionStore(database)
        self.turns = TurnStore(database)
        self.admission = AdmissionStore(database)
        self.endings = EndingStore(database)
        self.events = EventStore(database)
        self.owners = OwnerStore(database)
        self.attachments = AttachmentStore(database)
