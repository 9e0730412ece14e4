"""What the composition root refuses, and what it names."""

from pathlib import Path

import pytest

from config.loader import load
from config.policy import Policy
from config.problem import ConfigError
from services.sandbox import bundle
from services.sandbox.main import build_provider, build_service
from services.sandbox.providers.local.provider import LocalProvider


def _policy(root: Path, *overrides: str) -> Policy:
    return load(profile="test", env={}, overrides=[f"storage.data_root={root}", *overrides], components=())


def test_the_local_provider(tmp_path: Path) -> None:
    assert isinstance(build_provider(_policy(tmp_path)), LocalProvider)


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("sandbox.provider=daytona", "sandbox.provider"),
        ("sandbox.local.isolation=process", "sandbox.local.isolation"),
        ("sandbox.local.isolation=landlock", "sandbox.local.isolation"),
        ("sandbox.root.network=open", "sandbox.root.network"),
    ],
)
def test_what_this_release_has_not_got_is_refused_at_start(tmp_path: Path, override: str, key: str) -> None:
    policy = _policy(tmp_path, "sandbox.deployment_id=test", override)
    with pytest.raises(ConfigError, match=key):
        build_service(policy, env={})


def test_the_bundle_is_complete_and_installed_once(tmp_path: Path) -> None:
    names = [name for name, _ in bundle.files()]
    assert {"start.py", "fleet_capsules.py", "fleet_agent/supervisor.py", "fleet_agent/worker.py"} <= set(names)
    folder = bundle.install(tmp_path, {"etc/passwd": b"x"})
    assert bundle.install(tmp_path, {"etc/passwd": b"x"}) == folder
    assert bundle.install(tmp_path, {"etc/passwd": b"y"}) != folder
    assert (folder / "etc" / "passwd").read_bytes() == b"x"
    assert len(list(folder.rglob("*.pyc"))) == len(names)
    assert not list(tmp_path.glob("agent-incoming-*"))
