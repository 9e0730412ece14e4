"""Files below a folder that hostile code may change at any moment.

Every step of a walk opens one segment relative to the folder before it and never follows a link, so that nothing
outside can be read or written, whatever is renamed or linked meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from services.common.errors import FleetError
from services.sandbox.files.paths import fold, split

READ_BYTES = 256 * 1024
_MAX_WAITING = 4_096
_MAKE_ATTEMPTS = 4
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class FoundFile:
    """A regular file.

    Attributes:
        path: Relative to the folder.
        byte_size: Its size.
        sha256: SHA-256 of its bytes, hexadecimal.
    """

    path: str
    byte_size: int
    sha256: str


@dataclass(frozen=True)
class Owner:
    """To whom created files belong.

    Attributes:
        uid: User id; None leaves the creator's.
        gid: Group id.
    """

    uid: int | None = None
    gid: int = -1

    def give(self, descriptor: int) -> None:
        """Hand a file or folder over."""
        if self.uid is not None:
            os.fchown(descriptor, self.uid, self.gid)


class Folder:
    """A folder on this machine.

    Args:
        root: Where it is; the path itself is trusted.
        owner: To whom files and folders that are made belong.
    """

    def __init__(self, root: Path, owner: Owner) -> None:
        self._root = root
        self._owner = owner

    @contextlib.contextmanager
    def _parent(self, segments: tuple[str, ...], *, create: bool) -> Iterator[int]:
        descriptor = os.open(self._root, _DIRECTORY)
        try:
            for segment in segments[:-1]:
                if create:
                    self._make_folder(descriptor, segment)
                below = self._open(descriptor, segment, _DIRECTORY, "/".join(segments))
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def _make_folder(self, parent: int, name: str) -> None:
        _refuse_other_spelling(parent, name)
        for _ in range(_MAKE_ATTEMPTS):
            try:
                os.mkdir(name, 0o755, dir_fd=parent)
                break
            except FileExistsError:
                if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                    return
                _move_away(parent, name)
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            self._owner.give(descriptor)
        finally:
            os.close(descriptor)

    @staticmethod
    def _open(parent: int, name: str, flags: int, path: str) -> int:
        try:
            return os.open(name, flags, dir_fd=parent)
        except FileNotFoundError:
            raise FleetError("FILE_NOT_FOUND", "There is no such file.", {"path": path}) from None
        except OSError:
            raise FleetError("FILE_NOT_REGULAR", "The path is, or goes through, a link.", {"path": path}) from None

    async def write(self, path: str, chunks: AsyncIterator[bytes], byte_size: int, sha256: str) -> None:
        """Write a whole file under a temporary name, check it, then rename it into place.

        What is in the way is moved aside, never followed: a link or file where a folder belongs, or a folder where the
        file does. Otherwise code of one Turn could keep every later one of the workspace from its attachments.

        Raises:
            FleetError: `PATH_INVALID`, `DATA_CORRUPTED` when size or hash are not met, `FILE_NOT_REGULAR` when the path
                is changed again and again meanwhile.
        """
        segments = split(path)
        with self._parent(segments, create=True) as parent:
            _refuse_other_spelling(parent, segments[-1])
            temporary = f".incoming-{secrets.token_hex(12)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o644, dir_fd=parent)
            try:
                try:
                    await _fill(descriptor, chunks, byte_size, sha256)
                    self._owner.give(descriptor)
                finally:
                    os.close(descriptor)
                _put(parent, temporary, segments[-1], path)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise

    def find(self, path: str, max_bytes: int) -> FoundFile:
        """Describe a regular file.

        Raises:
            FleetError: `PATH_INVALID`, `FILE_NOT_FOUND`, `FILE_NOT_REGULAR`, `FILE_LIMIT_EXCEEDED`.
        """
        with self._opened(path) as (descriptor, status):
            if status.st_size > max_bytes:
                raise FleetError(
                    "FILE_LIMIT_EXCEEDED",
                    f"The files have more than the {max_bytes} bytes allowed.",
                    {"path": path, "limit": str(max_bytes)},
                )
            digest = hashlib.sha256()
            size = 0
            while size <= status.st_size and (data := os.read(descriptor, READ_BYTES)):
                digest.update(data)
                size += len(data)
        if size != status.st_size:
            raise _changed(path)
        return FoundFile(path, size, digest.hexdigest())

    def read(self, file: FoundFile) -> Iterator[bytes]:
        """Read a file that was found.

        Raises:
            FleetError: `FILE_CHANGED` when it has other bytes than then, besides those of `find`.
        """
        digest = hashlib.sha256()
        size = 0
        with self._opened(file.path) as (descriptor, _):
            while size <= file.byte_size and (data := os.read(descriptor, READ_BYTES)):
                size += len(data)
                if size > file.byte_size:
                    break
                digest.update(data)
                yield data
        if size != file.byte_size or digest.hexdigest() != file.sha256:
            raise _changed(file.path)

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        segments = split(path)
        with self._parent(segments, create=False) as parent:
            descriptor = self._open(parent, segments[-1], _FILE, path)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FleetError("FILE_NOT_REGULAR", "The path is not a regular file.", {"path": path})
            yield descriptor, status
        finally:
            os.close(descriptor)

    def expand(self, paths: Iterable[str], max_files: int, max_bytes: int) -> list[FoundFile]:
        """Describe files, and every file of folders, sorted by path and each once.

        Raises:
            FleetError: as `find`; also `FILE_NOT_REGULAR` when a folder has a link or a device in it.
        """
        found: dict[str, FoundFile] = {}
        waiting = list(paths)
        total = 0
        while waiting:
            current = waiting.pop()
            names = self._list(current)
            if names is not None:
                waiting += [f"{current}/{name}" for name in names]
                if len(waiting) > _MAX_WAITING:
                    raise _too_many(max_files)
            elif current not in found:
                found[current] = self.find(current, max_bytes - total)
                total += found[current].byte_size
                if len(found) > max_files:
                    raise _too_many(max_files)
        return [found[path] for path in sorted(found)]

    def _list(self, path: str) -> list[str] | None:
        """Return the names in a folder, or None when the path is something else."""
        segments = split(path)
        with self._parent(segments, create=False) as parent:
            try:
                descriptor = os.open(segments[-1], _DIRECTORY, dir_fd=parent)
            except OSError:
                return None
            try:
                return os.listdir(descriptor)
            finally:
                os.close(descriptor)


async def _fill(descriptor: int, chunks: AsyncIterator[bytes], byte_size: int, sha256: str) -> None:
    digest = hashlib.sha256()
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > byte_size:
            break
        digest.update(chunk)
        view = memoryview(chunk)
        while view:
            view = view[os.write(descriptor, view) :]
    if size != byte_size or digest.hexdigest() != sha256.lower():
        raise FleetError("DATA_CORRUPTED", "The source's bytes don't have the size or SHA-256 of the manifest.")


def _put(parent: int, temporary: str, name: str, path: str) -> None:
    """Rename a written file into place."""
    for _ in range(_MAKE_ATTEMPTS):
        try:
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            return
        except IsADirectoryError:
            _move_away(parent, name)
    raise FleetError("FILE_NOT_REGULAR", "The path is a folder.", {"path": path})


def _move_away(parent: int, name: str) -> None:
    """Give what is in the way another name; a link is renamed itself, whatever it leads to."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(name, f"replaced-{secrets.token_hex(6)}", src_dir_fd=parent, dst_dir_fd=parent)


def _refuse_other_spelling(parent: int, name: str) -> None:
    folded = fold(name)
    for other in os.listdir(parent):
        if other != name and fold(other) == folded:
            raise FleetError("PATH_INVALID", "A name that differs only in letter case is there.", {"path": name})


def _changed(path: str) -> FleetError:
    return FleetError("FILE_CHANGED", "The file changed while it was being read.", {"path": path})


def _too_many(max_files: int) -> FleetError:
    return FleetError(
        "FILE_LIMIT_EXCEEDED", f"There are more than the {max_files} files allowed.", {"limit": str(max_files)}
    )
