"""Loads the effective policy: a file, a profile, overrides and the environment, all problems reported at once."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from config.document import SHIPPED, Table, merge, parse_overrides, profile_tables, read
from config.policy import COMPONENTS, Policy
from config.problem import ConfigError, Problem
from config.rules import RULES
from config.server import ComponentName
from config.variables import missing

__all__ = ["ConfigError", "Problem", "load", "profiles"]


def load(
    profile: str | None = None,
    path: Path | str | None = None,
    overrides: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    components: Collection[ComponentName] = COMPONENTS,
) -> Policy:
    """The effective policy.

    Args:
        profile: the profile's name; else `FLEET_PROFILE`, else the file's `default_profile`.
        path: the policy file; else `FLEET_CONFIG`, else the shipped one.
        overrides: `dotted.key=value` texts, merged over the profile.
        env: the environment; the process's own by default.
        components: the parts that will run: the variables they can't run without must be set. Empty checks none.

    Raises:
        ConfigError: everything that is wrong: unknown keys, wrong types, broken rules, missing variables.
    """
    environment = os.environ if env is None else env
    document = read(Path(path or environment.get("FLEET_CONFIG") or SHIPPED))
    header: Table = document["config"]
    name = profile or environment.get("FLEET_PROFILE") or header.get("default_profile", "")
    tables = merge(profile_tables(document, name), parse_overrides(overrides))
    if "profile" in tables:
        raise ConfigError([Problem("profile", "is chosen with --profile or FLEET_PROFILE")])
    tables["profile"] = name
    policy, found = _validate(tables)
    if policy is not None:
        broken = {problem.key for problem in found}
        found += _broken_rules(policy, broken)
        found += [
            Problem(variable.key, f"environment variable {variable.name} is not set")
            for variable in missing(policy, environment, components)
            if variable.key not in broken
        ]
    if policy is None or found:
        raise ConfigError(found)
    return policy.with_addresses({})


def profiles(path: Path | str | None = None) -> list[str]:
    """The names of the profiles in a policy file, the shipped one by default.

    Raises:
        ConfigError: the file can't be read.
    """
    return sorted(read(Path(path or SHIPPED)).get("profiles", {}))


def _validate(tables: Table) -> tuple[Policy | None, list[Problem]]:
    """The policy of `tables` and its problems.

    Where values are wrong the policy has the shipped ones in their place, so that rules between the other keys can be
    checked in the same run; None when even that is not possible.
    """
    try:
        return Policy.model_validate(tables), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    found = [_problem(detail) for detail in details]
    repaired: Any = tables
    for detail in details:
        repaired = _repair(repaired, _path(detail), _shipped(tables["profile"]))
    try:
        return Policy.model_validate(repaired), found
    except ValidationError:
        return None, found


def _shipped(profile: str) -> Table:
    document = read(SHIPPED)
    known = profile if profile in document["profiles"] else document["config"]["default_profile"]
    return profile_tables(document, known)


def _repair(table: Any, path: tuple[str, ...], shipped: Any) -> Any:
    """`table` with the value at `path` taken from `shipped`, or left out where that has none."""
    if not path or not isinstance(table, Mapping):
        return shipped
    key, rest = path[0], path[1:]
    below = shipped.get(key) if isinstance(shipped, Mapping) else None
    others = {name: value for name, value in table.items() if name != key}
    value = _repair(table[key], rest, below) if rest and key in table else below
    return others if value is None else {**others, key: value}


def _path(detail: ErrorDetails) -> tuple[str, ...]:
    """The keys that lead to the value; list positions belong to the list."""
    names: list[str] = []
    for part in detail["loc"]:
        if not isinstance(part, str):
            break
        names.append(part)
    return tuple(names)


def _problem(detail: ErrorDetails) -> Problem:
    path = _path(detail)
    if detail["type"] == "extra_forbidden":
        return Problem(".".join(path), f"is unknown{_suggestion(path)}")
    if detail["type"] == "missing":
        return Problem(".".join(path), "is missing")
    if detail["type"] == "model_type":
        return Problem(".".join(path), "must be a table")
    return Problem(".".join(path), detail["msg"].replace("Input should", "should"))


def _suggestion(path: tuple[str, ...]) -> str:
    model: Any = Policy
    for name in path[:-1]:
        field = model.model_fields.get(name)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return ""
        model = field.annotation
    close = difflib.get_close_matches(path[-1], model.model_fields, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _broken_rules(policy: Policy, broken: set[str]) -> Iterator[Problem]:
    for rule in RULES:
        if not broken.intersection(rule.keys) and not rule.holds(policy):
            yield Problem(rule.keys[0], rule.message)
