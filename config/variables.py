"""The environment variables that a policy names, and which part of the deployment needs them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from config.policy import Policy
from config.server import ComponentName

_MODEL_USERS: tuple[ComponentName, ...] = ("session", "recursion")
_SIGNERS: tuple[ComponentName, ...] = ("gateway", "session", "recursion")
_VERIFIERS: tuple[ComponentName, ...] = ("session", "sandbox", "recursion")
_BROKER: tuple[ComponentName, ...] = ("sandbox",)


@dataclass(frozen=True)
class Variable:
    """An environment variable that the policy names.

    Attributes:
        key: the policy key that names it.
        name: the variable.
        users: the parts of the deployment that read it.
        required: whether those parts can't run without it.
    """

    key: str
    name: str
    users: tuple[ComponentName, ...]
    required: bool


def named_by(policy: Policy) -> tuple[Variable, ...]:
    """Every variable that `policy` names and its settings make use of."""
    return tuple(variable for variable in _all(policy) if variable.name)


def missing(policy: Policy, env: Mapping[str, str], components: Collection[ComponentName]) -> tuple[Variable, ...]:
    """The variables that one of `components` can't run without and that `env` lacks or holds blank."""
    return tuple(
        variable
        for variable in named_by(policy)
        if variable.required and set(variable.users) & set(components) and not env.get(variable.name, "").strip()
    )


def _all(policy: Policy) -> Iterator[Variable]:
    for role, model in (("root", policy.llm.root), ("sub", policy.llm.sub)):
        yield Variable(f"llm.{role}.api_key_env", model.api_key_env, _MODEL_USERS, True)
        if not model.base_url:
            yield Variable(f"llm.{role}.base_url_env", model.base_url_env, _MODEL_USERS, True)
    yield Variable("auth.signing_key_env", policy.auth.signing_key_env, _SIGNERS, True)
    yield Variable("auth.verify_keys_env", policy.auth.verify_keys_env, _VERIFIERS, True)
    if policy.sandbox.provider == "daytona":
        for key in ("api_key_env", "api_url_env", "organization_env", "snapshot_env", "child_snapshot_env"):
            yield Variable(f"daytona.{key}", getattr(policy.daytona, key), _BROKER, key == "api_key_env")
    yield Variable("database.session_url_env", policy.database.session_url_env, ("session",), False)
    yield Variable("database.sandbox_url_env", policy.database.sandbox_url_env, ("sandbox",), False)
    yield Variable("database.recursion_url_env", policy.database.recursion_url_env, ("recursion",), False)
    yield Variable("database.reasoning_url_env", policy.database.reasoning_url_env, (), False)
