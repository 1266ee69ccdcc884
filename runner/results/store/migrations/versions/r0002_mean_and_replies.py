"""Runs know the mean of their scores while they run, and replies are kept by idempotency key."""

import math
import struct

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# As the index of segments was at this revision.
_RECORD = struct.Struct("<IBBxxQd")
_RUNS = sa.table("runs", sa.column("id"), sa.column("scores"), sa.column("score_sum"))
_SEGMENTS = sa.table("segments", sa.column("run"), sa.column("first"), sa.column("entries", sa.LargeBinary))


def _sum(*scores: float) -> float:
    try:
        return math.fsum(scores)
    except (OverflowError, ValueError):
        return math.inf


def upgrade() -> None:
    op.create_table(
        "replies",
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("reply", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_index("replies_by_time", "replies", ["created"])
    op.add_column("runs", sa.Column("scores", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("score_sum", sa.Float(53), nullable=False, server_default="0"))
    connection = op.get_bind()
    for run in connection.execute(sa.select(_RUNS.c.id)).scalars().all():
        count, total, last = 0, 0.0, 0
        next_segment = sa.select(_SEGMENTS.c.first, _SEGMENTS.c.entries).where(_SEGMENTS.c.run == run).limit(1)
        next_segment = next_segment.order_by(_SEGMENTS.c.first)
        while (found := connection.execute(next_segment.where(_SEGMENTS.c.first > last)).first()) is not None:
            last = found.first
            entries = found.entries[: len(found.entries) // _RECORD.size * _RECORD.size]
            scores = [score for *_, score in _RECORD.iter_unpack(entries) if not math.isnan(score)]
            count, total = count + len(scores), _sum(total, *scores)
        connection.execute(_RUNS.update().where(_RUNS.c.id == run).values(scores=count, score_sum=total))
