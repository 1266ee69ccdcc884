"""The first tables: evaluators and versions, datasets, presets, runs, segments."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "evaluators",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
    )
    op.create_table(
        "versions",
        sa.Column("name", sa.String(64), sa.ForeignKey("evaluators.name", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.String(12), nullable=False),
        sa.Column("language", sa.String(16), nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
    )
    op.create_table(
        "datasets",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("suffix", sa.String(16), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger),
        sa.Column("columns", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_index("datasets_by_digest", "datasets", ["digest"])
    op.create_table(
        "presets",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("evaluator", sa.Text, nullable=False),
        sa.Column("number", sa.Integer),
        sa.Column("version", sa.String(12), nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64)),
        sa.Column("direction", sa.String(16), nullable=False),
        sa.Column("sandbox", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(16), nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("started", sa.BigInteger),
        sa.Column("ended", sa.BigInteger),
        sa.Column("total", sa.BigInteger),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("rows", "scored", "abstained", "failed", "lost", "bytes")
        ),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("summary", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("command", sa.Text, nullable=False),
    )
    op.create_index("runs_by_evaluator", "runs", ["evaluator", "number"])
    op.create_index("runs_by_digest", "runs", ["digest"])
    op.create_table(
        "segments",
        sa.Column("run", sa.String(64), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("entries", sa.LargeBinary, nullable=False),
    )
    op.create_index("segments_by_digest", "segments", ["digest"])
