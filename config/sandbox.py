"""The `[sandbox]` and `[daytona]` sections: where model-written code runs and under which limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from config.section import Count, EnvName, Seconds, Section


class RootSandbox(Section):
    """A Root's sandbox.

    Attributes:
        network: no network, all of it, or the hosts in `network_allow` only.
        network_allow: the hosts of an allow list, as CIDR blocks.
    """

    network: Literal["none", "open", "allow_list"]
    network_allow: Annotated[tuple[str, ...], Field(strict=False, max_length=64)]


class ChildSandbox(Section):
    """A child's sandbox, which never has a network."""

    network: Literal["none"]


class LocalSandbox(Section):
    """Limits of the local provider.

    Attributes:
        isolation: `auto` takes bubblewrap, else Landlock, else refuses; `process` isolates nothing but a process and
            is never chosen by itself.
        cpu_seconds: processor time of a sandbox process.
        memory_mb: address space of a sandbox process in MiB.
        processes: processes of a sandbox.
        files_mb: largest file in MiB.
    """

    isolation: Literal["auto", "bubblewrap", "landlock", "process"]
    cpu_seconds: Count
    memory_mb: Annotated[int, Field(ge=64, le=1_048_576)]
    processes: Annotated[int, Field(ge=4, le=10_000)]
    files_mb: Annotated[int, Field(ge=1, le=1_048_576)]


class Sandbox(Section):
    """Leases and the sandboxes behind them.

    Attributes:
        provider: where sandboxes are made.
        deployment_id: the name on every sandbox of this deployment; its orphans are found by it, so no two
            deployments may share one.
        orphan_grace_seconds: age at which a sandbox without a lease is deleted.
        max_active_leases: leases of all kinds at one moment, warm ones included.
        child_lease_percent: the share of them that only children may use.
        warm_root: sandboxes kept ready for Roots.
        warm_child: sandboxes kept ready for children.
        root: the Root's sandbox.
        child: a child's sandbox.
        local: limits of the local provider.
    """

    provider: Literal["daytona", "local"]
    deployment_id: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9-]{0,39})?$")]
    orphan_grace_seconds: Seconds
    max_active_leases: Annotated[int, Field(ge=2, le=10_000)]
    child_lease_percent: Annotated[int, Field(ge=1, le=99)]
    warm_root: Annotated[int, Field(ge=0, le=1_000)]
    warm_child: Annotated[int, Field(ge=0, le=1_000)]
    root: RootSandbox
    child: ChildSandbox
    local: LocalSandbox

    @property
    def max_child_leases(self) -> int:
        """Leases that children may hold, at least one."""
        return max(1, self.max_active_leases * self.child_lease_percent // 100)

    @property
    def max_root_leases(self) -> int:
        """Leases that Roots may hold, at least one."""
        return max(1, self.max_active_leases - self.max_child_leases)


class Daytona(Section):
    """The Daytona account; read only when `sandbox.provider` is `daytona`.

    Attributes:
        api_key_env: holds the API key.
        api_url_env: holds the API's URL; the SDK's own when the variable is unset.
        organization_env: holds the organization's id; the key's own when the variable is unset.
        target: the region; the account's own when empty.
        snapshot_env: holds the Root's snapshot; the account's default when the variable is unset.
        child_snapshot_env: holds the children's snapshot; the Root's when the variable is unset.
        volume_name: the Volume of the Workspaces.
        volume_mount_path: where a Root sees its Workspace.
    """

    api_key_env: EnvName
    api_url_env: EnvName
    organization_env: EnvName
    target: str
    snapshot_env: EnvName
    child_snapshot_env: EnvName
    volume_name: Annotated[str, Field(min_length=1, max_length=128)]
    volume_mount_path: Annotated[str, Field(pattern=r"^/[^\s]+$")]
