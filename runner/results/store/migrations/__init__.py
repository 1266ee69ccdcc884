"""Alembic's revisions of the tables, and how they are applied."""
