"""Run the offline model: `python -m services.offline`."""

from __future__ import annotations

from services.common.process import main
from services.offline.main import build_service

if __name__ == "__main__":
    main("offline", build_service)
