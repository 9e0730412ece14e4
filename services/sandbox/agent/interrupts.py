"""Signals in the worker: SIGINT interrupts model code, never the worker's own code."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from types import FrameType
    from typing import Any
else:
    import _signal

_GUARDED = (
    _signal.SIGALRM,
    _signal.SIGVTALRM,
    _signal.SIGPROF,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
    _signal.SIGTERM,
    _signal.SIGHUP,
    _signal.SIGQUIT,
    _signal.SIGCHLD,
    _signal.SIGPIPE,
)


class Interrupts:
    """Decides when a signal may raise in the main thread.

    Attributes:
        interrupted: Whether SIGINT came during the current execution.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._critical = 0
        self._deferred = False
        self._saved: dict[int, Any] = {}
        self._pid = os.getpid()

    def _on_interrupt(self, signum: int, frame: FrameType | None) -> None:
        self.interrupted = True
        if self._critical:
            self._deferred = True
            return
        raise KeyboardInterrupt

    def begin(self) -> None:
        """Model code starts: its own handlers are back and SIGINT raises KeyboardInterrupt."""
        self.interrupted = False
        self._deferred = False
        self._critical = 0
        for signum, handler in self._saved.items():
            _signal.signal(signum, handler)
        self._saved = {}
        _signal.signal(_signal.SIGINT, self._on_interrupt)

    def end(self) -> None:
        """Model code ended: nothing that it installed may raise until the next execution."""
        self._insist(_signal.SIGINT, _signal.SIG_IGN)
        for signum in _GUARDED:
            handler = _signal.getsignal(signum)
            if callable(handler) and handler is not _signal.default_int_handler:
                self._saved[signum] = handler
                self._insist(signum, _signal.SIG_IGN)

    def _insist(self, signum: int, handler: Any) -> None:
        # Changing a handler first runs the handlers of signals that are already here, and those may raise.
        for _ in range(100):
            try:
                _signal.signal(signum, handler)
            except BaseException:  # noqa: BLE001, S112 - whatever model code raises from a handler is of no interest
                continue
            return

    def enter_critical(self) -> None:
        """From here to `leave_critical` SIGINT waits; only the main thread is affected."""
        self._critical += 1

    def leave_critical(self) -> None:
        """Raise an interrupt that waited.

        Raises:
            KeyboardInterrupt: SIGINT came since `enter_critical`.
        """
        self._critical -= 1
        if self._critical <= 0 and self._deferred:
            self._deferred = False
            raise KeyboardInterrupt
