"""A server claims the runs that it does, for a time; and a run may be stopped from another server."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("server", sa.String(64)))
    op.add_column("runs", sa.Column("lease", sa.BigInteger))
    op.add_column("runs", sa.Column("stop", sa.Integer, nullable=False, server_default="0"))
