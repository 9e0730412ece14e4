"""One invocation's line to a model provider: its sockets, its clock, and the way to cut it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

CONNECT_SECONDS = 15.0
"""How long opening a connection may take, so that an unreachable provider is told soon."""

_OPENED = (".connect_tcp.complete", ".start_tls.complete")


class LineCut(ConnectionError):
    """The request was called off.

    Attributes:
        sent: whether it may have reached the provider.
    """

    def __init__(self, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(
            "the request was called off" + (" and its connection closed" if sent else " before it was sent")
        )


@dataclass(frozen=True)
class Permit:
    """Leave to send one request.

    Attributes:
        seconds: how long it may take, retries not included.
        called_off: set when the request must end.
    """

    seconds: float
    called_off: threading.Event


class ProviderLine:
    """What every request of one invocation to one model shares. Safe from any thread.

    `cut()` and `drop()` close each open connection at once: a socket that another thread waits on is shut down, which
    wakes that thread, whereas closing it would not.
    """

    def __init__(self, *, timeout: float, time_left: Callable[[], float]) -> None:
        """Open the line.

        Args:
            timeout: the longest one request may take, in seconds.
            time_left: how many seconds the invocation has left.
        """
        self._timeout = timeout
        self._time_left = time_left
        self._lock = threading.Lock()
        self._is_cut = False
        self._called_off = threading.Event()
        self._sockets: dict[int, Any] = {}

    def permit(self) -> Permit:
        """Return the leave to send a request.

        Raises:
            LineCut: the line was cut or the invocation has no time left.
        """
        seconds = min(self._timeout, self._time_left())
        with self._lock:
            if self._is_cut or seconds <= 0:
                raise LineCut(sent=False)
            return Permit(seconds, self._called_off)

    def time_left(self) -> float:
        """Return how many seconds the invocation has left."""
        return self._time_left()

    def cut(self) -> None:
        """Call off what is under way, close every connection and refuse further requests."""
        with self._lock:
            self._is_cut = True
        self.drop()

    def drop(self) -> None:
        """Call off what is under way and close every connection; later requests open others."""
        with self._lock:
            self._called_off.set()
            self._called_off = threading.Event()
            sockets = list(self._sockets.values())
            self._sockets.clear()
        for each in sockets:
            _shut(each)

    def tracer(self, permit: Permit) -> Callable[[str, Mapping[str, Any]], None]:
        """Return what takes the HTTP library's trace events of a request and remembers the connections it opens."""

        def trace(name: str, info: Mapping[str, Any]) -> None:
            if name.endswith(_OPENED):
                self._remember(info["return_value"].get_extra_info("socket"), permit)

        return trace

    def _remember(self, opened: Any, permit: Permit) -> None:
        if opened is None:
            return
        with self._lock:
            for key in [key for key, each in self._sockets.items() if each.fileno() < 0]:
                del self._sockets[key]
            if not permit.called_off.is_set():
                self._sockets[opened.fileno()] = opened
                return
        _shut(opened)


def _shut(opened: Any) -> None:
    # A TLS socket's own shutdown would drop the TLS state under the thread that reads; only the TCP part is ended.
    shutdown = socket.socket.shutdown if isinstance(opened, socket.socket) else type(opened).shutdown
    try:
        shutdown(opened, socket.SHUT_RDWR)
    except OSError:
        return  # it was closed already
