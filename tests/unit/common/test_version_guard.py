"""The guard on DSPy's version, in processes that have another one, or none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from services.common.version_guard import installed_dspy, require_dspy

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys
from services.common.version_guard import require_dspy
try:
    require_dspy()
finally:
    assert "dspy" not in sys.modules
print("passed")
"""


def run(folder: Path, metadata: str | None) -> subprocess.CompletedProcess[str]:
    """Run the guard where `folder` comes first on the path, with DSPy's metadata of that content, or no DSPy at all."""
    if metadata is not None:
        info = folder / "dspy-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(metadata)
    # Without site-packages there is no other DSPy; the guard needs the standard library only.
    command = [sys.executable, "-S", "-c", SCRIPT]
    env = {"PYTHONPATH": f"{folder}:{ROOT}", "PATH": ""}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    "version", ["3.3.0", "3.3.2", "3.3.1rc1", "3.3.1.post1", "3.3.1+x", "3.3.1.dev0", "3.3.10", "2.6"]
)
def test_any_other_version_is_refused(tmp_path: Path, version: str) -> None:
    ended = run(tmp_path, f"Metadata-Version: 2.1\nName: dspy\nVersion: {version}\n")
    assert ended.returncode == 2
    line = f"fleet: error: Fleet RLM requires exactly DSPy 3.3.1; installed version is '{version}'\n"
    assert (ended.stdout, ended.stderr) == ("", line)


@pytest.mark.parametrize("metadata", [None, "Metadata-Version: 2.1\nName: dspy\n"])
def test_no_version_at_all(tmp_path: Path, metadata: str | None) -> None:
    ended = run(tmp_path, metadata)
    assert ended.returncode == 2
    assert ended.stderr.endswith("installed version is 'none'\n")


def test_the_required_version_passes(tmp_path: Path) -> None:
    ended = run(tmp_path, "Metadata-Version: 2.1\nName: dspy\nVersion: 3.3.1\n")
    assert (ended.returncode, ended.stdout) == (0, "passed\n")


def test_this_installation_passes() -> None:
    require_dspy()
    assert installed_dspy() == "3.3.1"
