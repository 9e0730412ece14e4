"""Composition root of the offline model."""

from __future__ import annotations

from config.policy import Policy
from services.offline.server import OfflineService


def build_service(policy: Policy) -> OfflineService:
    """The offline model's server at the policy's address; port 0 lets the system choose."""
    host, _, port = policy.bind_address("offline").rpartition(":")
    return OfflineService(host.strip("[]"), int(port))
