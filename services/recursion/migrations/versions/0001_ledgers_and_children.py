"""Ledgers, their lines and reservations, calls for children and children."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ledgers",
        sa.Column("turn", sa.String(64), primary_key=True),
        sa.Column("session", sa.String(64), nullable=False),
        sa.Column("workspace", sa.String(128), nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("deadline", sa.BigInteger, nullable=False),
        sa.Column("work_deadline", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
        sa.CheckConstraint("state IN ('open', 'settling', 'settled', 'aborted')", name="ledger_state"),
        sa.CheckConstraint("(closed_at IS NOT NULL) = (state IN ('settled', 'aborted'))", name="ledger_closed"),
    )
    op.create_index("ledgers_by_deadline", "ledgers", ["state", "deadline"])
    op.create_table(
        "ledger_lines",
        sa.Column("turn", sa.String(64), sa.ForeignKey("ledgers.turn", ondelete="CASCADE"), primary_key=True),
        sa.Column("dimension", sa.String(32), primary_key=True),
        sa.Column("allowed", sa.BigInteger, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("open_until", sa.BigInteger, nullable=False),
        sa.CheckConstraint("used >= 0 AND used <= allowed", name="ledger_line_within_limit"),
    )
    op.create_table(
        "reservations",
        sa.Column("turn", sa.String(64), sa.ForeignKey("ledgers.turn", ondelete="CASCADE"), primary_key=True),
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("dimension", sa.String(32), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("unused", sa.BigInteger, nullable=False),
        sa.CheckConstraint("unused >= 0 AND unused <= amount", name="reservation_refund"),
    )
    op.create_table(
        "child_calls",
        sa.Column("turn", sa.String(64), sa.ForeignKey("ledgers.turn", ondelete="CASCADE"), primary_key=True),
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.create_table(
        "children",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("turn", sa.String(64), nullable=False),
        sa.Column("call_id", sa.String(128), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("refunded", sa.Boolean, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.ForeignKeyConstraint(["turn", "call_id"], ["child_calls.turn", "child_calls.id"], ondelete="CASCADE"),
        sa.UniqueConstraint("turn", "call_id", "position", name="child_position"),
        sa.UniqueConstraint("turn", "ordinal", name="child_ordinal"),
        sa.CheckConstraint("state IN ('queued', 'running', 'cleaning', 'ended')", name="child_state"),
        sa.CheckConstraint("(outcome IS NOT NULL) = (state IN ('cleaning', 'ended'))", name="child_outcome"),
    )
    op.create_index("children_by_expiry", "children", ["state", "expires_at"])


def downgrade() -> None:
    for table in ("children", "child_calls", "reservations", "ledger_lines", "ledgers"):
        op.drop_table(table)
