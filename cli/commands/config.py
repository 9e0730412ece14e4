"""`fleet config`: what the policy says."""

from __future__ import annotations

import os

import typer

from cli import options
from config.loader import load
from config.show import as_json as shown_as_json
from config.show import as_toml
from services.common.process import usage_errors

app = typer.Typer(no_args_is_help=True, help="Show or check the policy.")


@app.command()
def show(
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    data_root: options.DataRoot = None,
    as_json: options.AsJson = False,
) -> None:
    """Print the effective policy; secrets are masked."""
    with usage_errors():
        policy = load(profile, path=config, overrides=options.pairs(overrides, data_root), components=())
    typer.echo(shown_as_json(policy, os.environ) if as_json else as_toml(policy, os.environ))


@app.command()
def check(
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    data_root: options.DataRoot = None,
) -> None:
    """Check the policy and the variables that it names; lists every problem and exits with 2 if there is one."""
    with usage_errors():
        policy = options.policy_of(profile, config, overrides, data_root)
    typer.echo(f"profile {policy.profile}: ok")
