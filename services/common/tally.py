"""Counts and hashes bytes while they pass, and says whether they are what was announced."""

from __future__ import annotations

import hashlib

from services.common.errors import FleetError


class Tally:
    """The size and SHA-256 of what came so far.

    Args:
        max_bytes: most bytes that may come.
        expected_size: bytes that must come.
        expected_sha256: lower-case hex digest that they must have.

    Attributes:
        size: bytes that came so far.
    """

    def __init__(
        self, max_bytes: int | None = None, expected_size: int | None = None, expected_sha256: str | None = None
    ) -> None:
        self._max_bytes = max_bytes
        self._expected_size = expected_size
        self._expected_sha256 = expected_sha256
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """The lower-case hex digest of the bytes that came so far."""
        return self._digest.hexdigest()

    def take(self, chunk: bytes) -> None:
        """Count `chunk`.

        Raises:
            FleetError: ATTACHMENT_TOO_LARGE, before it is hashed.
        """
        self.size += len(chunk)
        if self._max_bytes is not None and self.size > self._max_bytes:
            raise FleetError("ATTACHMENT_TOO_LARGE", f"At most {self._max_bytes} bytes are allowed.")
        self._digest.update(chunk)

    def check_end(self) -> None:
        """Return when everything came.

        Raises:
            FleetError: UPLOAD_INCOMPLETE or CHECKSUM_MISMATCH.
        """
        if self._expected_size is not None and self.size != self._expected_size:
            message = f"{self._expected_size} bytes were declared and {self.size} came."
            raise FleetError("UPLOAD_INCOMPLETE", message)
        if self._expected_sha256 is not None and self.sha256 != self._expected_sha256:
            raise FleetError("CHECKSUM_MISMATCH", "The bytes don't have the declared SHA-256.")
