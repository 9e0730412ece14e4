"""The agent's files as a sandbox gets them."""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_AGENT = Path(__file__).parent / "agent"
_TOP_LEVEL = frozenset(("start.py", "fleet_capsules.py"))
_UNCHECKED_HASH = 1
PACKAGE = "fleet_agent"
START = "start.py"


def files() -> Iterator[tuple[str, bytes]]:
    """Yield relative path and content of each source file, sorted by path."""
    for source in sorted(_AGENT.glob("*.py")):
        name = source.name if source.name in _TOP_LEVEL else f"{PACKAGE}/{source.name}"
        yield name, source.read_bytes()


@cache
def digest() -> str:
    """Return the SHA-256 of names and contents, hexadecimal."""
    total = hashlib.sha256()
    for name, content in files():
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


@cache
def _compiled() -> dict[str, bytes]:
    """Return sources and their byte code for this Python, which saves a sandbox most of its start."""
    result: dict[str, bytes] = {}
    for name, content in files():
        result[name] = content
        code = marshal.dumps(compile(content, name, "exec", dont_inherit=True))
        header = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH.to_bytes(4, "little")
        result[importlib.util.cache_from_source(name)] = header + importlib.util.source_hash(content) + code
    return result


def install(parent: Path, extra: dict[str, bytes]) -> Path:
    """Write the files into a folder named by their hash, once.

    Args:
        parent: Where the folder is made; it must exist.
        extra: Further files, by relative path.

    Returns:
        The folder.
    """
    tag = hashlib.sha256(repr((digest(), sorted(extra.items()), sys.version)).encode()).hexdigest()[:16]
    target = parent / f"agent-{tag}"
    if target.is_dir():
        return target
    temporary = Path(tempfile.mkdtemp(dir=parent, prefix="agent-incoming-"))
    for name, content in {**_compiled(), **extra}.items():
        path = temporary / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    _make_readable(temporary)
    try:
        temporary.rename(target)
    except OSError:
        # Another process was faster.
        shutil.rmtree(temporary)
    return target


def _make_readable(folder: Path) -> None:
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
