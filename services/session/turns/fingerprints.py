"""Tells whether two requests ask for the same Turn."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from services.session.turns.turn import TurnInput


def fingerprint(given: TurnInput) -> str:
    """SHA-256, hexadecimal, over the canonical JSON of every field of a Turn's input, its text whole."""
    canonical = json.dumps(asdict(given), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
