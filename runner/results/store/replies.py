"""Replies to requests that may come twice, by their idempotency key."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, func, insert, select

from runner.core.errors import InputError
from runner.results.store.base import StorePart, now
from runner.results.store.schema import replies
from runner.results.store.types import IdempotentReply

REPLY_LIFETIME = timedelta(hours=24)
MOST_KEYS = 10_000
_KEY = 255  # characters
_REPLY = 1 << 20


class IdempotentReplies(StorePart):
    """The replies that are remembered for a day, the last 10,000 of them. All raises StoreError."""

    def remember(self, key: str, digest: str, reply: str) -> IdempotentReply:
        """
        Keep the reply to a request; the one that is kept, which is another's if it was there first.

        `digest` is that of the request, so that the caller sees a key that was used for another one.

        Raises:
            InputError: For a key that cannot be one.
        """
        _check(key)
        if len(reply) > _REPLY:
            raise InputError(f"a reply of more than {_REPLY >> 20} MB is not kept")
        with self._database.write() as connection:
            connection.execute(delete(replies).where(replies.c.created < now() - REPLY_LIFETIME))
            there = connection.execute(select(replies).where(replies.c.key == key)).first()
            if there is not None:
                return IdempotentReply(digest=there.digest, reply=there.reply)
            if connection.execute(select(func.count()).select_from(replies)).scalar_one() >= MOST_KEYS:
                oldest = select(replies.c.key).order_by(replies.c.created).limit(MOST_KEYS // 10)
                connection.execute(delete(replies).where(replies.c.key.in_(oldest)))
            connection.execute(insert(replies).values(key=key, digest=digest, reply=reply, created=now()))
            return IdempotentReply(digest=digest, reply=reply)

    def recalled(self, key: str) -> IdempotentReply | None:
        """Return the reply that is kept under the key. Raises InputError for a key that cannot be one."""
        _check(key)
        query = select(replies).where(replies.c.key == key, replies.c.created >= now() - REPLY_LIFETIME)
        with self._database.read() as connection:
            row = connection.execute(query).first()
            return None if row is None else IdempotentReply(digest=row.digest, reply=row.reply)


def _check(key: str) -> None:
    if not (0 < len(key) <= _KEY and key.isascii() and key.isprintable()):
        raise InputError(f"Idempotency-Key: 1 to {_KEY} printable ASCII characters, such as a UUID")
