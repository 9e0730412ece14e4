"""The `[services]`, `[server]` and `[auth]` sections: who listens where, and who may call."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from config.section import EnvName, Port, Seconds, Section

Address = Annotated[str, Field(pattern=r"^(dns:///)?(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):\d{1,5}$")]
"""Where a service is called: `host:port`, or `dns:///host:port` to balance over every address of a name."""

ComponentName = Literal["gateway", "session", "sandbox", "recursion", "offline"]
"""The parts that run as processes of their own."""


class ServiceAddress(Section):
    """Where one service is called."""

    address: Address


class Services(Section):
    """Where the services call each other; the gateway calls the session service."""

    session: ServiceAddress
    sandbox: ServiceAddress
    recursion: ServiceAddress
    offline: ServiceAddress


class Ports(Section):
    """Ports of listeners that no service calls; a service listens on the port of its `services.<name>.address`."""

    gateway: Port


class Server(Section):
    """Every listener of this deployment.

    Attributes:
        host: the address that every listener binds.
        ports: the ports of listeners that are not in `services`.
        drain_seconds: how long running work may take to end at shutdown.
        log_level: least severe log line that is written.
        tls_cert_file: PEM chain of the listeners; plain text when empty.
        tls_key_file: PEM key of the listeners.
        tls_ca_file: PEM roots that callers trust; when set, services call each other over TLS.
    """

    host: Annotated[str, Field(min_length=1)]
    ports: Ports
    drain_seconds: Seconds
    log_level: Literal["debug", "info", "warning", "error"]
    tls_cert_file: str
    tls_key_file: str
    tls_ca_file: str


class Auth(Section):
    """Who callers are.

    Attributes:
        mode: `keys` for API keys at the edge, `oidc` for an identity provider's tokens, `loopback` for none on
            loopback listeners only.
        oidc_issuer: issuer of the identity provider's tokens.
        oidc_audience: audience that they must name.
        jwks_url: where the identity provider publishes its keys.
        signing_key_env: holds the PEM key that signs service tokens; a key file below `storage.data_root` when
            empty.
        verify_keys_env: holds the PEM public keys that verify them, one after another; the key file's own when empty.
    """

    mode: Literal["keys", "oidc", "loopback"]
    oidc_issuer: str
    oidc_audience: str
    jwks_url: Annotated[str, Field(pattern=r"^(|https?://\S+)$")]
    signing_key_env: EnvName
    verify_keys_env: EnvName
