"""`fleet chat`: Turn after Turn on one Session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cli import options
from config.policy import Policy
from services.common.errors import FleetError
from services.common.process import set_up_logs, usage_errors
from services.common.version_guard import require_dspy

if TYPE_CHECKING:
    from cli.conversation import Conversation

HELP = "Ask anything. /attach FILE gives a document to the next question, /quit ends."


def chat(
    attach: options.Attach = None,
    session: Annotated[str | None, typer.Option(help="Go on with this Session: sessions/{id}.")] = None,
    server: Annotated[str | None, typer.Option(help="Address of a running session service.")] = None,
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    data_root: options.DataRoot = None,
) -> None:
    """Hold a conversation: Python variables live on between healthy Turns."""
    require_dspy()
    with usage_errors():
        policy = options.policy_of(profile, config, overrides, data_root)
        set_up_logs(policy, "error")
        asyncio.run(_chat(policy, server, session, attach or []))


async def _chat(policy: Policy, server: str | None, session: str | None, files: list[Path]) -> None:
    from cli.conversation import Conversation, connected

    console = Console()
    async with connected(policy, server, lambda text: console.print(f"… {text}", style="dim")) as client:
        conversation = Conversation(client, session)
        console.print(HELP, style="dim")
        while (line := await _line(console)) is not None:
            if line.startswith("/attach "):
                files = _attach(console, files, line.removeprefix("/attach ").strip())
            elif line:
                await _turn(console, conversation, line, files)
                files = []


async def _turn(console: Console, conversation: Conversation, text: str, files: list[Path]) -> None:
    from cli.view.display import make_display

    try:
        with make_display(as_json=False) as display:
            await conversation.turn(text, files, None, display)
    except FleetError as error:
        console.print(f"fleet: error: {error.message}", style="red", markup=False)


async def _line(console: Console) -> str | None:
    """The next line, or None at the end."""
    try:
        line = (await asyncio.to_thread(console.input, "[bold cyan]you[/] ")).strip()
    except EOFError:
        return None
    return None if line in {"/quit", "/exit"} else line


def _attach(console: Console, files: list[Path], name: str) -> list[Path]:
    path = Path(name).expanduser()
    if not path.is_file():
        console.print(f"no such file: {name}", style="red", markup=False)
        return files
    console.print(f"attached for the next question: {path.name}", style="dim", markup=False)
    return [*files, path]
