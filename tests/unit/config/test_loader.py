"""The loader: profiles, merging, overrides, and every problem in one error."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.loader import ConfigError, load, profiles
from config.policy import COMPONENTS

PROVIDER = {"FLEET_LLM_BASE_URL": "https://provider.example/v1/", "FLEET_LLM_API_KEY": "sk-provider"}
PRODUCTION = {
    "DATABRICKS_TOKEN": "dapi-1",
    "FLEET_LLM_BASE_URL": "https://gateway.example/v1",
    "FLEET_DAYTONA_API_KEY": "dtn_1",
    "FLEET_SIGNING_KEY": "pem",
    "FLEET_VERIFY_KEYS": "pem",
}
DEPLOYMENT = ["sandbox.deployment_id=acme"]


def keys(error: pytest.ExceptionInfo[ConfigError]) -> list[str]:
    return [problem.key for problem in error.value.problems]


def test_shipped_profiles() -> None:
    assert profiles() == ["daytona", "daytona-recursive", "local", "local-provider", "test"]


def test_default_profile_is_production_with_recursion() -> None:
    policy = load(env=PRODUCTION, overrides=DEPLOYMENT)
    assert policy.profile == "daytona-recursive"
    assert policy.rlm.recursion_enabled
    assert policy.sandbox.provider == "daytona"
    assert (policy.llm.root.num_retries, policy.llm.sub.num_retries) == (0, 1)
    assert policy.mlflow.tracing_enabled
    assert policy.bind_address("session") == "0.0.0.0:8421"
    assert policy.services.session.address == "dns:///fleet-session:8421"


def test_profile_from_variable_and_argument() -> None:
    assert load(env={**PRODUCTION, "FLEET_PROFILE": "daytona"}, overrides=DEPLOYMENT).rlm.recursion_enabled is False
    assert load(profile="local", env={"FLEET_PROFILE": "daytona"}).profile == "local"


def test_shipped_limits_match_the_documented_table() -> None:
    policy = load(profile="local", env={})
    rlm = policy.rlm
    assert (rlm.max_iters, rlm.max_llm_calls, rlm.max_tool_calls, rlm.max_output_chars) == (12, 32, 256, 6_000)
    assert (rlm.max_execution_output_bytes, rlm.execution_timeout_seconds, rlm.wrap_up_seconds) == (2_000_000, 300, 300)
    assert (rlm.recursion_max_calls, rlm.recursion_max_parallel_children) == (4, 4)
    assert (rlm.recursion_child_max_iters, rlm.recursion_child_max_llm_calls) == (8, 12)
    assert (rlm.recursion_child_max_output_chars, rlm.recursion_max_prompt_chars) == (4_000, 50_000)
    assert (rlm.settle_seconds, rlm.child_grace_seconds) == (60, 30)
    runtime = policy.runtime
    assert (runtime.turn_timeout_seconds, runtime.lease_seconds, runtime.heartbeat_seconds) == (1_800, 60, 10)
    assert (runtime.max_resident_sessions, runtime.session_idle_seconds) == (32, 300)
    assert (runtime.max_concurrent_turns, runtime.queue_seconds) == (32, 30)
    sandbox = policy.sandbox
    assert (sandbox.max_root_leases, sandbox.max_child_leases, sandbox.orphan_grace_seconds) == (32, 32, 120)
    assert (sandbox.warm_root, sandbox.warm_child) == (1, 2)
    local = sandbox.local
    assert (local.cpu_seconds, local.memory_mb, local.processes, local.files_mb) == (600, 2_048, 64, 1_024)
    assert policy.storage.max_upload_bytes == policy.storage.max_artifact_bytes == 100 * 1024 * 1024


def test_local_needs_nothing_and_uses_the_offline_model() -> None:
    policy = load(profile="local", env={})
    assert policy.uses_offline_model
    resolved = policy.llm.root.resolve({})
    assert (resolved.model, resolved.base_url, resolved.api_key) == ("fleet-offline", "http://127.0.0.1:8424/v1", "")
    assert policy.auth.mode == "loopback"
    assert policy.bind_address("gateway") == "127.0.0.1:8420"


def test_offline_model_follows_its_server() -> None:
    policy = load(profile="test", env={})
    with pytest.raises(ValueError, match="with_addresses"):
        policy.llm.sub.resolve({})
    moved = policy.with_addresses({"offline": "127.0.0.1:4100", "session": "127.0.0.1:4101"})
    assert moved.llm.sub.resolve({}).base_url == "http://127.0.0.1:4100/v1"
    assert moved.services.session.address == "127.0.0.1:4101"
    again = moved.with_addresses({"offline": "127.0.0.1:4200"})
    assert again.llm.root.base_url == "http://127.0.0.1:4200/v1"
    assert again.uses_offline_model
    assert policy.llm.sub.base_url == "offline"
    waiting = moved.with_addresses({"offline": "127.0.0.1:0"})
    assert waiting.uses_offline_model
    assert waiting.with_addresses({"offline": "127.0.0.1:4300"}).llm.root.base_url == "http://127.0.0.1:4300/v1"


def test_real_provider_takes_two_variables_and_two_overrides() -> None:
    overrides = ["llm.root.model=gpt-root", "llm.sub.model = gpt-sub", "llm.root.temperature=0.5"]
    policy = load(profile="local-provider", overrides=overrides, env=PROVIDER)
    root = policy.llm.root.resolve(PROVIDER)
    assert (root.model, root.base_url, root.api_key, root.temperature) == (
        "gpt-root",
        "https://provider.example/v1",
        "sk-provider",
        0.5,
    )
    assert policy.llm.sub.resolve(PROVIDER).model == "gpt-sub"
    assert "sk-provider" not in repr(root)
    assert not policy.uses_offline_model


def test_provider_at_the_offline_address_of_another_role_does_not_move() -> None:
    policy = load(profile="local", env={}, overrides=["llm.root.base_url=http://127.0.0.1:9/v1"])
    moved = policy.with_addresses({"offline": "127.0.0.1:4100"})
    assert moved.llm.root.base_url == "http://127.0.0.1:9/v1"
    assert moved.llm.sub.base_url == "http://127.0.0.1:4100/v1"


def test_all_missing_variables_in_one_error() -> None:
    with pytest.raises(ConfigError) as error:
        load(env={"DATABRICKS_TOKEN": "  "}, overrides=DEPLOYMENT)
    text = str(error.value)
    for name in PRODUCTION:
        assert name in text
    assert keys(error)[0] == "llm.root.api_key_env"
    assert len(text.splitlines()) == len(error.value.problems)


def test_variables_of_other_components_are_not_needed() -> None:
    env = {"FLEET_SIGNING_KEY": "pem"}
    assert load(env=env, overrides=DEPLOYMENT, components=("gateway",)).profile == "daytona-recursive"
    assert load(env={}, overrides=DEPLOYMENT, components=()).profile == "daytona-recursive"


def test_every_kind_of_problem_is_reported_together() -> None:
    overrides = [
        "rlm.max_itres=3",
        'rlm.max_iters="12"',
        "rlm.recursion_max_parallel_children=9",
        "runtime.heartbeat_seconds=30",
        "sandbox.local.memory_mb=true",
        "nonsense.key=1",
    ]
    with pytest.raises(ConfigError) as error:
        load(env={}, overrides=overrides)
    found = {problem.key: problem.message for problem in error.value.problems}
    assert found["rlm.max_itres"] == "is unknown; did you mean max_iters?"
    assert "valid integer" in found["rlm.max_iters"]
    assert "less than or equal to 8" in found["rlm.recursion_max_parallel_children"]
    assert "three times" in found["runtime.lease_seconds"]
    assert "sandbox.local.memory_mb" in found
    assert "nonsense" in found
    assert "sandbox.deployment_id" in found
    assert "llm.root.api_key_env" in found


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["rlm.wrap_up_seconds=1800"], "rlm.wrap_up_seconds"),
        (["rlm.recursion_max_calls=3"], "rlm.recursion_max_parallel_children"),
        (["sandbox.max_active_leases=6", "runtime.max_resident_sessions=1"], "rlm.recursion_max_parallel_children"),
        (["runtime.lease_seconds=29"], "runtime.lease_seconds"),
        (["runtime.max_resident_sessions=33"], "runtime.max_resident_sessions"),
        (["sandbox.warm_root=33"], "sandbox.warm_root"),
        (["sandbox.warm_child=33"], "sandbox.warm_child"),
        (['sandbox.deployment_id=""'], "sandbox.deployment_id"),
        (["sandbox.root.network=allow_list"], "sandbox.root.network_allow"),
        (['sandbox.root.network_allow=["10.0.0.0/8"]'], "sandbox.root.network_allow"),
        (
            ["sandbox.root.network=allow_list", 'sandbox.root.network_allow=["10.0.0.0/8"]'],
            "sandbox.root.network",
        ),
        (["sandbox.child.network=open"], "sandbox.child.network"),
        (["mlflow.tracing_enabled=true", 'mlflow.tracking_uri=""'], "mlflow.tracking_uri"),
        (["mlflow.trace_content_max_chars=255"], "mlflow.trace_content_max_chars"),
        (["server.tls_cert_file=cert.pem"], "server.tls_cert_file"),
        (["server.host=0.0.0.0"], "server.host"),
        (["server.host=localhost.example"], "server.host"),
        (["auth.mode=oidc"], "auth.oidc_issuer"),
        (["auth.mode=keys"], "auth.signing_key_env"),
        (["auth.signing_key_env=FLEET_SIGNING_KEY"], "auth.verify_keys_env"),
        (['llm.root.base_url=""'], "llm.root.base_url"),
        (["llm.root.base_url=ftp://x"], "llm.root.base_url"),
        (["llm.root.api_key_env=lower_case"], "llm.root.api_key_env"),
        (["llm.root.reasoning_effort=extreme"], "llm.root.reasoning_effort"),
        (["services.session.address=nowhere"], "services.session.address"),
        (["rlm=3"], "rlm"),
        (["rlm.max_iters=0"], "rlm.max_iters"),
        (["rlm.max_iters=2.5"], "rlm.max_iters"),
        (["rlm.recursion_enabled=1"], "rlm.recursion_enabled"),
        (["profile=test"], "profile"),
    ],
)
def test_rules(overrides: list[str], key: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(profile="local", env={}, overrides=overrides)
    assert key in keys(error)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_loopback_hosts(host: str) -> None:
    policy = load(profile="local", env={}, overrides=[f"server.host={host}"])
    assert policy.bind_address("sandbox").endswith(":8422")


def test_overrides_keep_their_toml_type_and_fall_back_to_text() -> None:
    overrides = [
        "rlm.max_iters = 5",
        "rlm.recursion_enabled=false",
        "llm.root.model=name-without-quotes",
        'llm.sub.model="quoted"',
        "storage.data_root=/tmp/a = b",
    ]
    policy = load(profile="local", env={}, overrides=overrides)
    assert policy.rlm.max_iters == 5
    assert policy.rlm.recursion_enabled is False
    assert policy.llm.root.model == "name-without-quotes"
    assert policy.llm.sub.model == "quoted"
    assert str(policy.storage.root) == "/tmp/a = b"


@pytest.mark.parametrize("text", ["rlm.max_iters", "=3", "rlm..max_iters=3", ".=1"])
def test_malformed_overrides(text: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        load(profile="local", env={}, overrides=[text])


def test_override_cannot_smuggle_further_keys() -> None:
    with pytest.raises(ConfigError) as error:
        load(profile="local", env={}, overrides=["llm.root.model=1\nother=2"])
    assert keys(error) == ["llm.root.model"]


def test_problems_never_show_values() -> None:
    with pytest.raises(ConfigError) as error:
        load(profile="local", env={}, overrides=["llm.root.api_key=sk-very-secret", "rlm.max_iters=sk-very-secret"])
    assert "sk-very-secret" not in str(error.value)


def test_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="daytona-recursive, local, local-provider, test"):
        load(profile="lokal", env={})


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[config]\nschema_version = 2\n", "config.schema_version"),
        ("[config]\nschema_version = true\n", "config.schema_version"),
        ("", "config.schema_version"),
        ("config = 1\n", "config"),
        ("[config]\nschema_version = 1\ncolour = 2\n", "config.colour"),
        ("[config]\nschema_version = 1\ndefault_profile = 3\n", "config.default_profile"),
        ("[config]\nschema_version = 1\n[default]\n", "default"),
        ("[config]\nschema_version = 1\n[profiles]\nlocal = 3\n", "profiles.local"),
        ("[config]\nschema_version = 1\ndefaults = 3\n", "config.defaults"),
    ],
)
def test_bad_headers(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(path=path, env={})
    assert key in keys(error)


def test_file_that_is_missing_or_not_toml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        load(path=tmp_path / "none.toml", env={})
    broken = tmp_path / "broken.toml"
    broken.write_bytes(b"[config\n\xff")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(env={"FLEET_CONFIG": str(broken)})


def test_own_file_that_lacks_a_key(tmp_path: Path) -> None:
    shipped = (Path(__file__).parents[3] / "config" / "fleet.toml").read_text()
    path = tmp_path / "fleet.toml"
    path.write_text(shipped.replace("max_tool_calls = 256\n", ""))
    with pytest.raises(ConfigError) as error:
        load(profile="local", path=path, env={})
    assert [(p.key, p.message) for p in error.value.problems] == [("rlm.max_tool_calls", "is missing")]


def test_policy_is_frozen() -> None:
    policy = load(profile="local", env={})
    with pytest.raises(ValueError, match="frozen"):
        policy.rlm.max_iters = 3  # type: ignore[misc]


def test_components_are_the_processes() -> None:
    assert COMPONENTS == ("gateway", "session", "sandbox", "recursion", "offline")
