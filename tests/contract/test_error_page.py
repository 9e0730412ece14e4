"""The page of error reasons says what the contract says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_page_matches_the_catalogue(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path[:0] = ['../gen']; from pathlib import Path; import document_errors; "
        f"Path({str(tmp_path / 'page.md')!r}).write_text(document_errors.errors_page(Path({str(tmp_path)!r})))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "protos", check=True, timeout=50)
    assert (ROOT / "docs" / "errors.md").read_text() == (tmp_path / "page.md").read_text()
