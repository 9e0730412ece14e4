"""Bringing a child's declared result files to the Root."""

from __future__ import annotations

from collections.abc import Sequence

from services.common.errors import FleetError
from services.recursion.children import failures
from services.recursion.children.outcomes import MAX_RESULT_BYTES, ChildFailed, Findings, ResultFile
from services.recursion.children.paths import path_problem
from services.recursion.children.ports import Broker, Sandbox
from services.recursion.children.tasks import RESULTS_FOLDER


async def harvest(
    broker: Broker, child: Sandbox, findings: Findings, root: Sandbox, scratch_path: str, ordinal: int
) -> tuple[ResultFile, ...]:
    """Copy the declared files into `children/<ordinal>/` of the Turn's scratch.

    Raises:
        ChildFailed: `invalid_results` when a path, a file or the sum of bytes breaks the rules, or why the sandboxes
            can't be reached.
    """
    if not findings.result_files:
        return ()
    paths = declared_paths(findings.result_files, child.mount_root)
    left = MAX_RESULT_BYTES - len(findings.answer.encode())
    if left <= 0:
        raise ChildFailed("invalid_results", f"Answer and result files have more than {MAX_RESULT_BYTES} bytes.")
    folder = f"{RESULTS_FOLDER}/{ordinal}"
    try:
        collected = await broker.collect(child, paths, left)
        delivered = await broker.deliver(root, f"{scratch_path}/{folder}", collected)
    except FleetError as error:
        raise failures.of_results(error) from error
    return tuple(
        ResultFile(f"{folder}/{file.path}", file.local_path, file.byte_size, file.sha256) for file in delivered
    )


def declared_paths(declared: Sequence[str], mount_root: str) -> list[str]:
    """The declared paths relative to the mount root, under which a child sees them as absolute ones.

    Raises:
        ChildFailed: `invalid_results` for a path that breaks the rules or two that differ in case only.
    """
    root = mount_root.rstrip("/") + "/"
    paths = [path.removeprefix(root) if mount_root else path for path in declared]
    for path in paths:
        problem = path_problem(path)
        if problem is not None:
            raise ChildFailed("invalid_results", f"Result file {path!r} {problem}.")
    if len({path.casefold() for path in paths}) != len(paths):
        raise ChildFailed("invalid_results", "Two result files have the same name or differ in case only.")
    return paths
