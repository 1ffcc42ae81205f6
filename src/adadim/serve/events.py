"""The log of a service: one line of JSON for each request and each event, or plain text."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

logger = logging.getLogger("adadim.serve")


def log_event(event: str, **fields: Any) -> None:
    """Log an event with its fields; without a set-up of logging, Python shows warnings and errors only."""
    logger.info(event, extra={"fields": fields})


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time (UTC), level, logger, event, its fields, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line of JSON."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def log_as_json() -> None:
    """Let this program write all events, warnings and errors to its standard error as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name, level in (("adadim", logging.INFO), ("uvicorn", logging.ERROR), ("py.warnings", logging.WARNING)):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(level)
    logging.captureWarnings(True)
