"""Rules for the paths of staged inputs and result files, and the names that children never see."""

from __future__ import annotations

import re
import unicodedata

MAX_DEPTH = 8
"""Segments of a path below the workspace's own folder."""
MAX_SEGMENT_BYTES = 255
MAX_PATH_CHARS = 512

_SECRET_NAMES = re.compile(
    r"""
    \.env(?!ironment).* | .*\.env                                    # environment files
    | \.(ssh|git|gnupg|aws|azure|kube|docker|gcloud)                 # folders of credentials and of history
    | \.(netrc|npmrc|pypirc|pgpass|htpasswd|git-credentials|vault-token|boto|dockercfg)
    | _netrc
    | id_(rsa|dsa|ecdsa|ed25519)([._-].*)?                           # SSH keys
    | .*\.(pem|key|p12|pfx|pkcs12|jks|keystore|kdbx|ppk|asc|gpg)     # key stores
    | (.*[._-])?(credentials?|secrets?)([._-].*)?                    # files that say what they are
    | (.*[._-])?service[._-]?account([._-].*)?\.json
    | (api|access|auth)[._-]?(keys?|tokens?)([._-].*)?
    """,
    re.VERBOSE | re.IGNORECASE,
)


def path_problem(path: str) -> str | None:
    """Say what is wrong with a relative path, or None when it is canonical and safe."""
    if not path.strip():
        return "is empty or blank"
    if len(path) > MAX_PATH_CHARS:
        return f"is longer than {MAX_PATH_CHARS} characters"
    if "\\" in path or any(unicodedata.category(char) in ("Cc", "Cs") for char in path):
        return "has a back-slash, a control character or a lone surrogate"
    if path.startswith("/"):
        return "is absolute; give it relative to the workspace"
    segments = path.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        return "is not canonical: no empty, '.' or '..' segments"
    if len(segments) > MAX_DEPTH:
        return f"has more than {MAX_DEPTH} segments"
    if any(len(segment.encode()) > MAX_SEGMENT_BYTES for segment in segments):
        return f"has a segment of more than {MAX_SEGMENT_BYTES} bytes"
    return None


def looks_secret(path: str) -> bool:
    """Whether a segment of `path` is a name under which credentials are kept."""
    return any(_SECRET_NAMES.fullmatch(segment) for segment in path.split("/"))
