"""The one rule for file paths that cross a sandbox's border."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from services.common.errors import FleetError

MAX_DEPTH = 8
MAX_SEGMENT_BYTES = 255
MAX_PATH_BYTES = 1024

_SECRET_NAMES = frozenset(
    (".git", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".pgpass", ".pypirc", ".npmrc",
     ".git-credentials", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "credentials", "credentials.json",
     "secrets.json", "secrets.yaml", "secrets.yml", "service-account.json")
)  # fmt: skip
_SECRET_PREFIXES = (".env",)
_SECRET_SUFFIXES = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".asc")


def split(path: str) -> tuple[str, ...]:
    """Return the segments of a relative, canonical path.

    Raises:
        FleetError: `PATH_INVALID`, naming the rule that the path breaks.
    """
    problem = _problem(path)
    if problem:
        raise FleetError("PATH_INVALID", f"The path {problem}.", {"path": _shown(path)})
    return tuple(path.split("/"))


def _problem(path: str) -> str:
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if not path:
        return "is empty"
    if size > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes"
    if path.startswith("/"):
        return "is absolute"
    if "\\" in path:
        return "contains a back-slash"
    if any(unicodedata.category(character) == "Cc" for character in path):
        return "contains a control character"
    segments = path.split("/")
    if len(segments) > MAX_DEPTH:
        return f"is deeper than {MAX_DEPTH} segments"
    return next(filter(None, map(_segment_problem, segments)), "")


def _segment_problem(segment: str) -> str:
    if not segment:
        return "has an empty segment"
    if segment in (".", ".."):
        return f"has the segment {segment!r}"
    if len(segment.encode()) > MAX_SEGMENT_BYTES:
        return f"has a segment longer than {MAX_SEGMENT_BYTES} bytes"
    return ""


def _shown(path: str) -> str:
    return path.encode("ascii", "backslashreplace").decode()[:200]


def fold(segment: str) -> str:
    """Return what two names share that some file system can't tell apart: letter case and Unicode composition."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", segment).casefold())


def check_distinct(paths: Iterable[str]) -> list[tuple[str, ...]]:
    """Split several paths of one manifest.

    Raises:
        FleetError: `PATH_INVALID` when one breaks a rule, two are the same or differ only in letter case, or one is
            a folder of another.
    """
    result: list[tuple[str, ...]] = []
    spelled: dict[tuple[str, ...], tuple[str, ...]] = {}
    files: set[tuple[str, ...]] = set()
    for path in paths:
        segments = split(path)
        folded = tuple(map(fold, segments))
        for depth in range(1, len(segments)):
            if spelled.setdefault(folded[:depth], segments[:depth]) != segments[:depth] or folded[:depth] in files:
                raise _collision(path)
        if folded in spelled:
            raise _collision(path)
        spelled[folded] = segments
        files.add(folded)
        result.append(segments)
    return result


def _collision(path: str) -> FleetError:
    return FleetError("PATH_INVALID", "The path collides with another one of the request.", {"path": _shown(path)})


def looks_secret(path: str) -> bool:
    """Return whether a segment has a name under which credentials are usually kept."""
    return any(
        name in _SECRET_NAMES or name.startswith(_SECRET_PREFIXES) or name.endswith(_SECRET_SUFFIXES)
        for name in map(str.casefold, path.split("/"))
    )
