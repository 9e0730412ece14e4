"""Leases."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_STATES = "'INTENT', 'CREATING', 'READY', 'LOST', 'DELETING', 'ABSENT', 'QUARANTINED'"


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("request_id", sa.String(128)),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("session", sa.String(64), nullable=False),
        sa.Column("turn", sa.String(64), nullable=False),
        sa.Column("child", sa.String(64), nullable=False),
        sa.Column("workspace", sa.String(128), nullable=False),
        sa.Column("sandbox", sa.String(128), nullable=False),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.Column("endpoint", sa.String(255), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("isolation", sa.String(32), nullable=False),
        sa.Column("mount_root", sa.String(255), nullable=False),
        sa.Column("warm", sa.Boolean, nullable=False),
        sa.Column("idle_since", sa.BigInteger),
        sa.Column("expire_time", sa.BigInteger, nullable=False),
        sa.Column("create_time", sa.BigInteger, nullable=False),
        sa.Column("last_error", sa.String(512), nullable=False),
        sa.Column("delete_attempts", sa.BigInteger, nullable=False),
        sa.CheckConstraint(f"state IN ({_STATES})", name="lease_state"),
        sa.CheckConstraint("kind IN ('root', 'child')", name="lease_kind"),
        sa.UniqueConstraint("workspace", "request_id", name="lease_request"),
    )
    op.create_index("leases_by_holder", "leases", ["holder", "state"])
    op.create_index("leases_by_session", "leases", ["workspace", "session", "id"])
