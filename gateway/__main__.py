"""Runs the gateway as a process: `python -m gateway`."""

from gateway.main import build_service
from services.common.process import main

main("gateway", build_service)
