"""`fleet serve`: one service as a process."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from cli import options
from cli.components import builder
from config.loader import load
from services.common.process import serve as serve_process
from services.common.process import usage_errors
from services.common.version_guard import require_dspy


class Component(StrEnum):
    """The services that can run as processes of their own."""

    SESSION = "session"
    SANDBOX = "sandbox"
    RECURSION = "recursion"
    GATEWAY = "gateway"
    OFFLINE = "offline"


def serve(
    component: Annotated[Component, typer.Argument(help="Which service.")],
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
) -> None:
    """Run one service; writes one JSON line when it is ready."""
    require_dspy()
    with usage_errors():
        policy = load(profile, path=config, overrides=overrides or [], components=[component.value])
        build = builder(component.value)
    serve_process(component.value, build, policy)
