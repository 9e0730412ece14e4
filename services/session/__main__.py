"""Run the session service: `python -m services.session`."""

from __future__ import annotations

from services.common.process import main
from services.session.main import build_service

if __name__ == "__main__":
    main("session", build_service)
