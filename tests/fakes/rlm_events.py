"""An event sink that keeps what it is given."""

from __future__ import annotations

import threading
from typing import TypeVar

from services.rlm.events import RlmEvent

E = TypeVar("E")


class KeptEvents:
    """Keeps events in order."""

    def __init__(self) -> None:
        self.events: list[RlmEvent] = []
        self._changed = threading.Condition()

    def emit(self, event: RlmEvent) -> None:
        """Keep `event`."""
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def wait_for(self, kind: type[E], timeout: float = 10.0) -> E:
        """Block until there is an event of this kind and return the first."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self.of(kind)), timeout):
                raise TimeoutError(f"no {kind.__name__}")
            return self.of(kind)[0]
