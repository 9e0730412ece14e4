"""What the offline model's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.offline_run import Driver

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="session")
def licences() -> dict[str, str]:
    """The four licence texts by file name."""
    return {path.name: path.read_text() for path in sorted((EXAMPLES / "licenses").glob("*.txt"))}


@pytest.fixture(scope="session")
def tables() -> dict[str, str]:
    """The example tables by file name."""
    return {path.name: path.read_text() for path in sorted((EXAMPLES / "tables").iterdir()) if path.suffix != ".md"}


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    """Runs Roots and children in this process."""
    return Driver(tmp_path)
