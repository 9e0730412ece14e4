"""The policy file as plain tables: reading it, picking a profile, merging, and `key=value` overrides."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from config.problem import ConfigError, Problem

SHIPPED = Path(__file__).with_name("fleet.toml")
"""The policy file that comes with the package."""

SCHEMA_VERSION = 1
"""The only `config.schema_version` that this release reads."""

Table = dict[str, Any]


def read(path: Path) -> Table:
    """The tables of the policy file at `path`.

    Raises:
        ConfigError: it can't be read, is not TOML, or has another schema version.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([Problem(str(path), f"can't be read: {error.strerror}")]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(str(path), f"is not valid TOML: {error}")]) from error
    found = list(_header_problems(document))
    if found:
        raise ConfigError(found)
    return document


def profile_tables(document: Table, profile: str) -> Table:
    """`[defaults]` merged under `[profiles.<profile>]`.

    Raises:
        ConfigError: there is no such profile.
    """
    profiles = document.get("profiles", {})
    if profile not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise ConfigError([Problem("profile", f"there is no profile {profile!r}; the file has: {known}")])
    return merge(document.get("defaults", {}), profiles[profile])


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> Table:
    """A new table with every value of `over`, and those of `under` that it lacks, tables merged key by key."""
    merged: Table = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def parse_overrides(overrides: Iterable[str]) -> Table:
    """Tables of `dotted.key=value` texts; a value that is no TOML literal is a string.

    Raises:
        ConfigError: texts without a key or `=`.
    """
    found: list[Problem] = []
    tables: Table = {}
    for text in overrides:
        key, separator, value = text.partition("=")
        parts = [part.strip() for part in key.split(".")]
        if not separator or not all(parts):
            found.append(Problem(text, "an override is written key=value, such as rlm.max_iters=8"))
            continue
        nested: Any = _literal(value.strip())
        for part in reversed(parts):
            nested = {part: nested}
        tables = merge(tables, nested)
    if found:
        raise ConfigError(found)
    return tables


def _literal(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _header_problems(document: Table) -> Iterable[Problem]:
    for key in sorted(set(document) - {"config", "defaults", "profiles"}):
        yield Problem(key, "is unknown; the file has the tables config, defaults and profiles")
    for name in ("config", "defaults", "profiles"):
        if not isinstance(document.get(name, {}), dict):
            yield Problem(name, "must be a table")
    config = document.get("config")
    header = config if isinstance(config, dict) else {}
    version = header.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        yield Problem("config.schema_version", f"must be {SCHEMA_VERSION}")
    if not isinstance(header.get("default_profile", ""), str):
        yield Problem("config.default_profile", "must be a string")
    for key in sorted(set(header) - {"schema_version", "default_profile"}):
        yield Problem(f"config.{key}", "is unknown")
    profiles = document.get("profiles", {})
    for name, table in profiles.items() if isinstance(profiles, dict) else ():
        if not isinstance(table, dict):
            yield Problem(f"profiles.{name}", "must be a table")
