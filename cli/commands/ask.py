"""`fleet ask`: one Turn, shown live."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from config.policy import Policy
from services.common.process import set_up_logs, usage_errors
from services.common.version_guard import require_dspy

if TYPE_CHECKING:
    from cli.view.display import Display


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    attach: options.Attach = None,
    session: Annotated[str | None, typer.Option(help="Go on with this Session: sessions/{id}.")] = None,
    timeout: Annotated[float | None, typer.Option(min=1, max=86_400, help="Seconds this Turn may take.")] = None,
    server: Annotated[
        str | None, typer.Option(help="Address of a running session service; else one on the same data root is used.")
    ] = None,
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    data_root: options.DataRoot = None,
    as_json: options.AsJson = False,
) -> None:
    """Ask a question about documents, and watch the answer being worked out. Starts what it needs."""
    files = options.attached(attach)
    if not question.strip():
        raise typer.BadParameter("must not be blank", param_hint="QUESTION")
    require_dspy()
    # Imported when it is needed, so that --help and argument errors are instant.
    from cli.view.display import make_display

    with usage_errors():
        policy = options.policy_of(profile, config, overrides, data_root)
        set_up_logs(policy, "error")
        code = asyncio.run(_ask(policy, server, session, question, files, timeout, make_display(as_json)))
    raise typer.Exit(code)


async def _ask(
    policy: Policy,
    server: str | None,
    session: str | None,
    question: str,
    files: list[Path],
    timeout: float | None,
    display: Display,
) -> int:
    from cli.conversation import Conversation, connected

    with display:
        async with connected(policy, server, display.progress) as client:
            conversation = Conversation(client, session)
            return await conversation.turn(question, files, timeout, display)
