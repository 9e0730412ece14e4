"""`fleet doctor`: is everything here that a Turn needs?"""

from __future__ import annotations

import asyncio

import typer

from cli import options
from services.common.process import set_up_logs, usage_errors
from services.common.version_guard import require_dspy


def doctor(
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    data_root: options.DataRoot = None,
    as_json: options.AsJson = False,
) -> None:
    """Check policy, databases, blob store, models, sandbox, recursion and tracing, each by using it once."""
    require_dspy()
    # Imported when it is needed, so that --help and argument errors are instant.
    from cli.doctor.examination import examine

    with usage_errors():
        policy = options.policy_of(profile, config, overrides, data_root)
        set_up_logs(policy, "error")
        failed = asyncio.run(examine(policy, as_json))
    raise typer.Exit(1 if failed else 0)
