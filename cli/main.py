"""The `fleet` command line."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from cli.commands import ask, chat, config, db, doctor, serve, up

app = typer.Typer(
    name="fleet",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A recursive language-model backend around native dspy.RLM.",
)
app.command()(up.up)
app.command()(serve.serve)
app.command()(ask.ask)
app.command()(chat.chat)
app.command()(doctor.doctor)
app.add_typer(config.app, name="config")
app.add_typer(db.app, name="db")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fleet {version('fleet-rlm-services')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Hold the options of the command itself."""


def run() -> None:
    """The entry point."""
    app()
