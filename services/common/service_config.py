"""Retries and timeouts of each service's methods, from the files beside the contracts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

_FOLDERS = (
    Path(__file__).resolve().parent / "service_config",  # in an installed package
    Path(__file__).resolve().parents[2] / "protos" / "service_config",  # in a source tree
)


@cache
def service_config(service: str) -> str:
    """The gRPC service config of `service` as one JSON text.

    Raises:
        FileNotFoundError: there is none for a service of that name.
    """
    for folder in _FOLDERS:
        path = folder / f"{service}.json"
        if path.is_file():
            return json.dumps(json.loads(path.read_text(encoding="utf-8")), separators=(",", ":"))
    raise FileNotFoundError(f"no service config for {service!r}")
