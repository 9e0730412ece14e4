"""Structured logs: JSON lines, or a readable form on a terminal, all through one redactor."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from services.common.redaction import Redactor

_LIBRARIES_AT_WARNING = ("alembic", "asyncio", "httpcore", "httpx", "LiteLLM", "aiosqlite", "urllib3", "uvicorn.error")


def configure_logging(level: str = "info", redactor: Redactor | None = None, stream: TextIO | None = None) -> None:
    """Set up the process's logs, those of libraries included. Call once, at start; a second call replaces the first.

    Args:
        level: least severe level that is written: debug, info, warning or error.
        redactor: masks secrets in every line; one that knows key-like patterns only by default.
        stream: where lines go; standard error by default.
    """
    target = stream or sys.stderr
    shared = _shared_processors()
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _redacting(redactor or Redactor()),
            structlog.dev.ConsoleRenderer() if target.isatty() else structlog.processors.JSONRenderer(),
        ],
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _LIBRARIES_AT_WARNING:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger named `name` whose lines carry what `structlog.contextvars` has bound, such as the request id."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def _shared_processors() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _redacting(redactor: Redactor) -> structlog.typing.Processor:
    def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {key: redactor.redact_value(value) for key, value in event.items()}

    return redact
