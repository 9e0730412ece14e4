"""Rules between keys of the policy, each stated once with the keys that it concerns."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

from config.policy import COMPONENTS, Policy


@dataclass(frozen=True)
class Rule:
    """A rule between keys.

    Attributes:
        keys: the keys it concerns; a broken rule is reported under the first.
        holds: whether a policy keeps it.
        message: what it demands.
    """

    keys: tuple[str, ...]
    holds: Callable[[Policy], bool]
    message: str


def is_loopback(host: str) -> bool:
    """Whether `host` is a name or address of this machine's loopback interface."""
    name = host.strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _binds_loopback(policy: Policy) -> bool:
    hosts = (policy.bind_address(component).rpartition(":")[0] for component in COMPONENTS)
    return all(is_loopback(host) for host in hosts)


def _when(condition: bool, demand: bool) -> bool:
    return demand or not condition


RULES: tuple[Rule, ...] = (
    Rule(
        ("llm.root.base_url", "llm.root.base_url_env"),
        lambda p: bool(p.llm.root.base_url or p.llm.root.base_url_env),
        "or llm.root.base_url_env must be set",
    ),
    Rule(
        ("llm.sub.base_url", "llm.sub.base_url_env"),
        lambda p: bool(p.llm.sub.base_url or p.llm.sub.base_url_env),
        "or llm.sub.base_url_env must be set",
    ),
    Rule(
        ("rlm.wrap_up_seconds", "runtime.turn_timeout_seconds"),
        lambda p: p.rlm.wrap_up_seconds < p.runtime.turn_timeout_seconds,
        "must be less than runtime.turn_timeout_seconds",
    ),
    Rule(
        ("rlm.recursion_max_parallel_children", "rlm.recursion_max_calls"),
        lambda p: p.rlm.recursion_max_parallel_children <= p.rlm.recursion_max_calls,
        "must be at most rlm.recursion_max_calls",
    ),
    Rule(
        (
            "rlm.recursion_max_parallel_children",
            "rlm.recursion_enabled",
            "sandbox.max_active_leases",
            "sandbox.child_lease_percent",
        ),
        lambda p: _when(p.rlm.recursion_enabled, p.rlm.recursion_max_parallel_children <= p.sandbox.max_child_leases),
        "must be at most the children's share of sandbox.max_active_leases",
    ),
    Rule(
        ("runtime.lease_seconds", "runtime.heartbeat_seconds"),
        lambda p: p.runtime.lease_seconds >= 3 * p.runtime.heartbeat_seconds,
        "must be at least three times runtime.heartbeat_seconds",
    ),
    Rule(
        ("runtime.max_resident_sessions", "sandbox.max_active_leases", "sandbox.child_lease_percent"),
        lambda p: p.runtime.max_resident_sessions <= p.sandbox.max_root_leases,
        "must be at most the Roots' share of sandbox.max_active_leases",
    ),
    Rule(
        ("sandbox.warm_root", "sandbox.max_active_leases", "sandbox.child_lease_percent"),
        lambda p: p.sandbox.warm_root <= p.sandbox.max_root_leases,
        "must be at most the Roots' share of sandbox.max_active_leases",
    ),
    Rule(
        ("sandbox.warm_child", "sandbox.max_active_leases", "sandbox.child_lease_percent"),
        lambda p: p.sandbox.warm_child <= p.sandbox.max_child_leases,
        "must be at most the children's share of sandbox.max_active_leases",
    ),
    Rule(
        ("sandbox.deployment_id", "sandbox.provider"),
        lambda p: bool(p.sandbox.deployment_id),
        "must be set to a name that no other deployment uses for its sandboxes",
    ),
    Rule(
        ("sandbox.root.network_allow", "sandbox.root.network"),
        lambda p: bool(p.sandbox.root.network_allow) == (p.sandbox.root.network == "allow_list"),
        'must name hosts when sandbox.root.network is "allow_list", and only then',
    ),
    Rule(
        ("sandbox.root.network", "sandbox.provider"),
        lambda p: _when(p.sandbox.root.network == "allow_list", p.sandbox.provider == "daytona"),
        '"allow_list" needs sandbox.provider "daytona"',
    ),
    Rule(
        ("daytona.api_key_env", "sandbox.provider"),
        lambda p: _when(p.sandbox.provider == "daytona", bool(p.daytona.api_key_env)),
        'must be set when sandbox.provider is "daytona"',
    ),
    Rule(
        ("mlflow.tracking_uri", "mlflow.tracing_enabled"),
        lambda p: _when(p.mlflow.tracing_enabled, bool(p.mlflow.tracking_uri)),
        "must be set when mlflow.tracing_enabled is true",
    ),
    Rule(
        ("server.tls_cert_file", "server.tls_key_file"),
        lambda p: bool(p.server.tls_cert_file) == bool(p.server.tls_key_file),
        "and server.tls_key_file must be set together",
    ),
    Rule(
        ("server.host", "auth.mode"),
        lambda p: _when(p.auth.mode == "loopback", _binds_loopback(p)),
        'must be a loopback address when auth.mode is "loopback"',
    ),
    Rule(
        ("auth.oidc_issuer", "auth.mode"),
        lambda p: _when(p.auth.mode == "oidc", bool(p.auth.oidc_issuer)),
        'must be set when auth.mode is "oidc"',
    ),
    Rule(
        ("auth.oidc_audience", "auth.mode"),
        lambda p: _when(p.auth.mode == "oidc", bool(p.auth.oidc_audience)),
        'must be set when auth.mode is "oidc"',
    ),
    Rule(
        ("auth.jwks_url", "auth.mode"),
        lambda p: _when(p.auth.mode == "oidc", bool(p.auth.jwks_url)),
        'must be set when auth.mode is "oidc"',
    ),
    Rule(
        ("auth.signing_key_env", "auth.mode"),
        lambda p: _when(p.auth.mode != "loopback", bool(p.auth.signing_key_env)),
        'must be set unless auth.mode is "loopback"',
    ),
    Rule(
        ("auth.verify_keys_env", "auth.mode"),
        lambda p: _when(p.auth.mode != "loopback", bool(p.auth.verify_keys_env)),
        'must be set unless auth.mode is "loopback"',
    ),
    Rule(
        ("auth.verify_keys_env", "auth.signing_key_env"),
        lambda p: bool(p.auth.verify_keys_env) == bool(p.auth.signing_key_env),
        "and auth.signing_key_env must be set together",
    ),
)
"""Every rule between keys."""
