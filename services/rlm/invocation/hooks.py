"""Callbacks that run once when something is called off."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextvars import ContextVar


class CancelHooks:
    """Callbacks to run once, by whoever calls the thing off. Safe from any thread.

    Callbacks must be quick and must not raise; they run in the thread of `fire`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fired = False
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._keys = itertools.count()

    @property
    def fired(self) -> bool:
        """Whether it was called off."""
        return self._fired

    def add(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Have `callback` run on `fire`, at once if that has happened; returns a function that takes it back."""
        with self._lock:
            key = next(self._keys)
            if not self._fired:
                self._callbacks[key] = callback
                return lambda: self._remove(key)
        callback()
        return lambda: None

    def fire(self) -> None:
        """Run every callback; only the first call does."""
        with self._lock:
            self._fired = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def clear(self) -> None:
        """Forget every callback."""
        with self._lock:
            self._callbacks.clear()

    def _remove(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


step_hooks: ContextVar[CancelHooks | None] = ContextVar("rlm_step_hooks", default=None)
"""What is called off when the running step is interrupted; set in the context that a step's tools run in."""
