"""Options that several commands share, and the policy they lead to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from config.loader import load
from config.policy import Policy

Profile = Annotated[str | None, typer.Option(help="Profile; else FLEET_PROFILE, else the file's default.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Another policy file.", dir_okay=False)]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one key; may be repeated.")
]
DataRoot = Annotated[Path | None, typer.Option(help="Folder of databases and documents; overrides storage.data_root.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable lines instead of the display.")]
Attach = Annotated[
    list[Path] | None,
    typer.Option("--attach", "-a", metavar="FILE", help="A document to give to the Turn; may be repeated."),
]


def policy_of(
    profile: str | None, config: Path | None, overrides: list[str] | None, data_root: Path | None = None
) -> Policy:
    """The effective policy of a command line.

    Raises:
        ConfigError: it can't be used; every problem is listed.
    """
    return load(profile, path=config, overrides=pairs(overrides, data_root))


def pairs(overrides: list[str] | None, data_root: Path | None) -> list[str]:
    """The overrides of a command line as `key=value` texts."""
    root = [] if data_root is None else [f"storage.data_root={json.dumps(str(data_root))}"]
    return [*(overrides or []), *root]


def attached(files: list[Path] | None) -> list[Path]:
    """The documents that `--attach` names.

    Raises:
        typer.BadParameter: one of them is no file; all such are named.
    """
    wrong = [f"{path} is {_what(path)}" for path in files or [] if not path.is_file()]
    if wrong:
        raise typer.BadParameter("; ".join(wrong), param_hint="--attach")
    return files or []


def _what(path: Path) -> str:
    return "a folder" if path.is_dir() else "not a file" if path.exists() else "not there"
