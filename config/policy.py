"""The whole policy: one strict, frozen model of everything a deployment may set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from config.llm import OFFLINE, Llm, ModelRole
from config.observability import Mlflow
from config.rlm import Rlm
from config.runtime import Runtime
from config.sandbox import Daytona, Sandbox
from config.section import Section
from config.server import Auth, ComponentName, Server, ServiceAddress, Services
from config.storage import Database, Storage

COMPONENTS: tuple[ComponentName, ...] = ("gateway", "session", "sandbox", "recursion", "offline")
"""Every part that can run as a process of its own."""


class Policy(Section):
    """The effective policy of one process: `[defaults]`, then the profile, then overrides.

    Attributes:
        profile: name of the profile that was selected.
    """

    profile: str
    llm: Llm
    rlm: Rlm
    runtime: Runtime
    services: Services
    server: Server
    sandbox: Sandbox
    daytona: Daytona
    storage: Storage
    database: Database
    mlflow: Mlflow
    auth: Auth

    def bind_address(self, component: ComponentName) -> str:
        """Where `component` listens, as `host:port`: `server.host` and its own port, 0 for one the system chooses."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        if component == "gateway":
            return f"{host}:{self.server.ports.gateway}"
        address: str = getattr(self.services, component).address
        return f"{host}:{address.rpartition(':')[2]}"

    @property
    def uses_offline_model(self) -> bool:
        """Whether a model role is the offline model, so that its server must run."""
        return any(role.base_url in (OFFLINE, self._offline_url()) for role in (self.llm.root, self.llm.sub))

    def with_addresses(self, addresses: Mapping[str, str]) -> Self:
        """This policy with services at other addresses, for a runner that let the system choose ports.

        Model roles that use the offline model follow its address.

        Args:
            addresses: `host:port` by service name: session, sandbox, recursion or offline.
        """
        services = self.services.model_copy(
            update={name: ServiceAddress(address=address) for name, address in addresses.items()}
        )
        former = self._offline_url()
        moved = self.model_copy(update={"services": services})
        return moved.model_copy(update={"llm": moved._llm_at(former)})

    def _llm_at(self, former: str) -> Llm:
        """The model roles with the offline model's current endpoint in place of its name or `former` endpoint.

        While the system has not chosen its port, they keep its name.
        """
        endpoint = OFFLINE if self.services.offline.address.endswith(":0") else self._offline_url()

        def follow(role: ModelRole) -> ModelRole:
            return role.model_copy(update={"base_url": endpoint}) if role.base_url in (OFFLINE, former) else role

        return Llm(root=follow(self.llm.root), sub=follow(self.llm.sub))

    def _offline_url(self) -> str:
        return f"http://{self.services.offline.address.removeprefix('dns:///')}/v1"
