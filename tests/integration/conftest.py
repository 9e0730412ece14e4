"""Fixtures of every integration test: both kinds of database, on one PostgreSQL server a run."""

from __future__ import annotations

from tests.integration.common.databases import database_url, postgres_url

__all__ = ["database_url", "postgres_url"]
