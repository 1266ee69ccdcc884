"""What Alembic runs: the revisions, in the transaction that the store has begun."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
