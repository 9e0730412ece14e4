"""Sessions, their owners, Turns, events and attachments."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ACTIVE = "'QUEUED', 'PREPARING', 'RUNNING', 'FINALIZING', 'SETTLING'"
_UNANSWERED = "'FAILED', 'CANCELLED', 'TIMED_OUT'"
_TERMINAL = f"'COMPLETED', {_UNANSWERED}"


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("checkpoint_version", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("create_time", sa.BigInteger(), nullable=False),
        sa.Column("update_time", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.CheckConstraint("state IN ('ACTIVE', 'ARCHIVED')", name="ck_sessions_state"),
        sa.CheckConstraint("checkpoint_version >= 0", name="ck_sessions_checkpoint_version"),
    )
    op.create_index("ix_sessions_page", "sessions", ["workspace", "update_time", "id"])
    op.create_table(
        "session_owners",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="pk_session_owners"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_session_owners_session_id", ondelete="CASCADE"
        ),
        sa.CheckConstraint("epoch >= 1", name="ck_session_owners_epoch"),
    )
    op.create_index("ix_session_owners_expires", "session_owners", ["expires"])
    op.create_table(
        "turns",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("choices", sa.Text(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("create_time", sa.BigInteger(), nullable=False),
        sa.Column("start_time", sa.BigInteger(), nullable=True),
        sa.Column("end_time", sa.BigInteger(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("outputs", sa.Text(), nullable=True),
        sa.Column("termination", sa.String(), nullable=True),
        sa.Column("checkpoint_version", sa.BigInteger(), nullable=True),
        sa.Column("usage", sa.Text(), nullable=False),
        sa.Column("budget", sa.Text(), nullable=False),
        sa.Column("iterations", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_turns_session_id", ondelete="CASCADE"),
        sa.CheckConstraint(f"state IN ({_ACTIVE}, {_TERMINAL})", name="ck_turns_state"),
        sa.CheckConstraint(f"(state IN ({_TERMINAL})) = (end_time IS NOT NULL)", name="ck_turns_ended"),
        sa.CheckConstraint(f"(state IN ({_UNANSWERED})) = (error IS NOT NULL)", name="ck_turns_error"),
        sa.CheckConstraint("(state = 'COMPLETED') = (answer IS NOT NULL)", name="ck_turns_answer"),
        sa.CheckConstraint("(state = 'COMPLETED') = (outputs IS NOT NULL)", name="ck_turns_outputs"),
        sa.CheckConstraint("(state = 'COMPLETED') = (checkpoint_version IS NOT NULL)", name="ck_turns_checkpoint"),
        sa.CheckConstraint(
            "(state = 'COMPLETED') = (termination IS NOT NULL) "
            "AND (termination IS NULL OR termination IN ('submit', 'extract'))",
            name="ck_turns_termination",
        ),
    )
    op.create_index("uq_turns_request", "turns", ["session_id", "request_id"], unique=True)
    op.create_index("uq_turns_checkpoint", "turns", ["session_id", "checkpoint_version"], unique=True)
    op.create_index("ix_turns_page", "turns", ["session_id", "create_time", "id"])
    op.create_index(
        "uq_turns_active",
        "turns",
        ["session_id"],
        unique=True,
        sqlite_where=sa.text("end_time IS NULL"),
        postgresql_where=sa.text("end_time IS NULL"),
    )
    op.create_table(
        "turn_attachments",
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("attachment_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("turn_id", "attachment_id", name="pk_turn_attachments"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name="fk_turn_attachments_turn_id", ondelete="CASCADE"),
    )
    op.create_index("ix_turn_attachments_attachment", "turn_attachments", ["attachment_id"])
    op.create_table(
        "turn_events",
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("turn_id", "sequence", name="pk_turn_events"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name="fk_turn_events_turn_id", ondelete="CASCADE"),
        sa.CheckConstraint("sequence >= 1", name="ck_turn_events_sequence"),
    )
    op.create_table(
        "attachments",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("byte_size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("create_time", sa.BigInteger(), nullable=False),
        sa.Column("blob_key", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_attachments"),
        sa.CheckConstraint("byte_size >= 1", name="ck_attachments_byte_size"),
    )
    op.create_index("ix_attachments_page", "attachments", ["workspace", "create_time", "id"])


def downgrade() -> None:
    for table in ("attachments", "turn_events", "turn_attachments", "turns", "session_owners", "sessions"):
        op.drop_table(table)
