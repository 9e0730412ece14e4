"""The folder of everything that is kept on this machine, and the lock that says who uses it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from config.problem import ConfigError, Problem


def prepare(root: Path) -> Path:
    """Make the data root, and folders above it, readable by this user only; an existing one is left as it is.

    Returns:
        `root` itself.

    Raises:
        ConfigError: it can't be made or is no folder.
    """
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError([Problem("storage.data_root", f"can't be made: {error.strerror}")]) from error
    return root


class DataRootLock:
    """An exclusive lock of one service on a data root.

    The operating system releases it when its process ends in any way, so holding it proves that no former owner is
    alive. Use it as a context manager, or call `acquire` and `release`.

    Args:
        root: the data root.
        service: whose lock it is; each service has its own.
    """

    def __init__(self, root: Path, service: str) -> None:
        self._root = root
        self._service = service
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock without waiting; a second call does nothing.

        Raises:
            ConfigError: another process holds it, or the data root can't be used.
        """
        if self._descriptor is not None:
            return
        folder = prepare(prepare(self._root) / "locks")
        try:
            descriptor = os.open(folder / f"{self._service}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError([Problem("storage.data_root", f"can't be locked: {error.strerror}")]) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            message = f"is in use by another {self._service} service"
            raise ConfigError([Problem("storage.data_root", message)]) from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back; does nothing when it isn't held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
