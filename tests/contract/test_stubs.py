"""The committed stubs are what the contracts generate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".py", ".pyi"} and "__pycache__" not in path.parts
    }


def test_committed_stubs_match_the_contracts(tmp_path: Path) -> None:
    code = f"from pathlib import Path; import generate; generate.generate(Path({str(tmp_path)!r}))"
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "protos", env=environment, check=True, timeout=50)
    generated, committed = _tree(tmp_path), _tree(ROOT / "gen")
    assert generated.keys() == committed.keys()
    assert generated == committed
