"""Versions say what somebody asked a script to be read as, apart from what it is read as."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("versions", sa.Column("asked_dialect", sa.String(64)))
    op.add_column("versions", sa.Column("asked_entry", sa.String(200)))
    # It was not told apart: who edits an older version sees what it is read as, and may take it away.
    op.execute("UPDATE versions SET asked_dialect = dialect, asked_entry = entry")
