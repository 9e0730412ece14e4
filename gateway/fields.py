"""Names of request fields as REST clients know them."""

from __future__ import annotations

from services.common.errors import FieldViolation, FleetError

_NAMES = {
    "request_id": "Idempotency-Key",
    "after_sequence": "after",
    "metadata.filename": "filename",
    "metadata.content_type": "Content-Type",
    "metadata.byte_size": "Content-Length",
    "metadata.sha256": "X-Content-SHA256",
}


def in_rest(error: FleetError) -> FleetError:
    """`error` of a gRPC call with its fields named as in the REST request that led to it."""
    if not error.violations:
        return error
    violations = [FieldViolation(_field(violation.field), violation.description) for violation in error.violations]
    return FleetError(error.reason, error.message, error.metadata, violations=violations, retry_after=error.retry_after)


def _field(name: str) -> str:
    return _NAMES.get(name, name.removeprefix("session."))
