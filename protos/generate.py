"""Generates the committed stubs in `gen/` from `protos/`.

Run `python protos/generate.py` after a contract changes; a test runs `generate` into a temporary folder and compares.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"


def generate(target: Path) -> None:
    """Write message, service and type stubs of every contract below `target`.

    Raises:
        RuntimeError: protoc refused a contract; its own message is on standard error.
    """
    well_known = resources.files("grpc_tools") / "_proto"
    sources = sorted(str(path) for path in PROTOS.rglob("*.proto"))
    target.mkdir(parents=True, exist_ok=True)
    arguments = [
        "protoc",
        f"-I{PROTOS}",
        f"-I{well_known}",
        f"--python_out={target}",
        f"--mypy_out=quiet:{target}",
        *sources,
    ]
    services = [source for source in sources if source.endswith("service.proto")]
    grpc_arguments = [
        "protoc",
        f"-I{PROTOS}",
        f"-I{well_known}",
        f"--grpc_python_out={target}",
        f"--mypy_grpc_out=quiet:{target}",
        *services,
    ]
    for command in (arguments, grpc_arguments):
        if protoc.main(command) != 0:
            raise RuntimeError(f"protoc failed: {' '.join(command[1:6])} …")
    for folder in {path.parent for path in target.rglob("*_pb2.py")}:
        for package in (folder, *folder.parents):
            if package == target:
                break
            (package / "__init__.py").write_text('"""Generated from `protos/`; see `protos/generate.py`."""\n')


if __name__ == "__main__":
    generate(ROOT / "gen")
    sys.exit(0)
