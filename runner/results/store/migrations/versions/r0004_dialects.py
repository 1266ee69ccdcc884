"""Versions say which tool a script was written for."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("versions", sa.Column("dialect", sa.String(64)))
    op.add_column("versions", sa.Column("entry", sa.String(200)))
    failures = sa.Column("dialect_failures", sa.String(16), nullable=False, server_default="failed")
    op.add_column("versions", failures)
