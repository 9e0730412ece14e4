"""The file below `data_root` that says where a running `fleet up` answers, so that other commands use it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

NAME = "up.json"

CONNECT_SECONDS = 1.0
"""How long a listener may take to accept when its file is checked."""


@contextlib.contextmanager
def announced(data_root: Path, addresses: Mapping[str, str]) -> Iterator[None]:
    """Keep the file while the services run."""
    path = data_root / NAME
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"pid": os.getpid(), "addresses": dict(addresses)}))
    temporary.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_addresses(data_root: Path) -> dict[str, str] | None:
    """Addresses by service of a `fleet up` that runs on `data_root`; None when none answers there."""
    try:
        addresses: dict[str, str] = json.loads((data_root / NAME).read_text())["addresses"]
        host, _, port = addresses["session"].rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
            return addresses
    except (OSError, ValueError, KeyError, TypeError):
        return None
