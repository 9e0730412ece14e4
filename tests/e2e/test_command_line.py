"""Errors of the `fleet` command that a person can mend: one clear line, exit code 2, nothing opened."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.e2e.deployment import run_fleet

pytestmark = pytest.mark.timeout(120)


def _errors(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("fleet: error: ")]


def test_help_and_version(tmp_path: Path) -> None:
    done = run_fleet(tmp_path, "--help")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("up", "serve", "ask", "chat", "doctor", "config", "db"))
    assert run_fleet(tmp_path, "--version").stdout.startswith("fleet ")


def test_every_missing_variable_is_named_at_once(tmp_path: Path) -> None:
    done = run_fleet(tmp_path, "up", "--profile", "local-provider")
    assert done.returncode == 2
    text = "\n".join(_errors(done.stderr))
    assert "FLEET_LLM_BASE_URL" in text
    assert "FLEET_LLM_API_KEY" in text


def test_bad_policy_names_each_key(tmp_path: Path) -> None:
    done = run_fleet(
        tmp_path, "config", "check", "--profile", "local", "--set", "rlm.max_iters=0", "--set", "rlm.nonsense=1"
    )
    assert done.returncode == 2
    text = "\n".join(_errors(done.stderr))
    assert "rlm.max_iters" in text
    assert "rlm.nonsense" in text


def test_any_bind_but_loopback_is_refused(tmp_path: Path) -> None:
    done = run_fleet(tmp_path, "up", "--profile", "local", "--set", "server.host=0.0.0.0")
    assert done.returncode == 2
    assert "server.host" in "\n".join(_errors(done.stderr))


def test_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_fleet(tmp_path, "serve", "gateway", "--profile", "local", "--set", f"server.ports.gateway={port}")
    assert done.returncode == 2
    assert len(_errors(done.stderr)) == 1
    assert str(port) in done.stderr


def test_missing_attachment_is_an_argument_error(tmp_path: Path) -> None:
    done = run_fleet(tmp_path, "ask", "--profile", "local", "What?", "--attach", "nowhere.txt")
    assert done.returncode == 2
    assert "nowhere.txt" in done.stderr


def test_config_show_masks_secrets(tmp_path: Path) -> None:
    secret = {"FLEET_LLM_BASE_URL": "http://127.0.0.1:1/v1", "FLEET_LLM_API_KEY": "sk-very-secret"}
    done = run_fleet(tmp_path, "config", "show", "--profile", "local-provider", "--json", **secret)
    assert done.returncode == 0, done.stderr
    assert "sk-very-secret" not in done.stdout
    assert json.loads(done.stdout)["rlm"]["max_iters"] == 12


@pytest.mark.parametrize("version", ["3.3.0", "3.3.2", "3.3.1+local", "3.4.0rc1"])
@pytest.mark.parametrize("command", [["up"], ["doctor"], ["serve", "session"], ["db", "check"]])
def test_any_other_dspy_is_refused_before_anything_is_opened(tmp_path: Path, version: str, command: list[str]) -> None:
    shadow = tmp_path / "shadow" / f"dspy-{version}.dist-info"
    shadow.mkdir(parents=True)
    (shadow / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dspy\nVersion: {version}\n")
    done = run_fleet(tmp_path, *command, "--profile", "local", PYTHONPATH=str(shadow.parent))
    assert done.returncode == 2
    line = f"fleet: error: Fleet RLM requires exactly DSPy 3.3.1; installed version is '{version}'"
    assert done.stderr.splitlines() == [line]
    assert not (tmp_path / ".fleet").exists()
    assert run_fleet(tmp_path, *command, "--help", PYTHONPATH=str(shadow.parent)).returncode == 0
