"""`fleet chat`: Turn after Turn on one Session."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cli import options
from cli.lines import Lines
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
    files = options.attached(attach)
    require_dspy()
    with usage_errors():
        policy = options.policy_of(profile, config, overrides, data_root)
        set_up_logs(policy, "error")
        asyncio.run(_chat(policy, server, session, files))


async def _chat(policy: Policy, server: str | None, session: str | None, files: list[Path]) -> None:
    from cli.conversation import Conversation, connected

    console = Console()
    lines = Lines(sys.stdin.fileno())
    async with connected(policy, server, lambda text: console.print(f"… {text}", style="dim")) as client:
        conversation = Conversation(client, session)
        console.print(HELP, style="dim")
        while (line := await _line(console, lines)) is not None:
            if line.startswith("/"):
                files = _command(console, files, line)
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


async def _line(console: Console, lines: Lines) -> str | None:
    """The next line, or None at the end."""
    console.print("[bold cyan]you[/] ", end="")
    line = await lines.next()
    if line is None:
        console.print()
        return None
    return None if line.strip() in {"/quit", "/exit"} else line.strip()


def _command(console: Console, files: list[Path], line: str) -> list[Path]:
    """Obey a line that begins with a slash; returns the documents of the next question."""
    command, _, name = line.partition(" ")
    if command != "/attach":
        console.print(HELP, style="dim")
        return files
    path = Path(name.strip()).expanduser()
    try:
        options.attached([path])
    except typer.BadParameter as error:
        console.print(error.message, style="red", markup=False)
        return files
    console.print(f"attached for the next question: {path.name}", style="dim", markup=False)
    return [*files, path]
