"""A child's inputs: looked up under the Turn's authority, then copied into the child's sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from pydantic import JsonValue

from services.common.errors import FleetError
from services.recursion.children import failures
from services.recursion.children.outcomes import ChildFailed
from services.recursion.children.ports import Broker, Sandbox
from services.recursion.children.tasks import (
    INPUTS_FOLDER,
    MAX_STAGED_BYTES,
    MAX_STAGED_FILES,
    STAGING_SECONDS,
    StagedFile,
    Task,
    check_manifest,
    named_path,
    workspace_path,
)


async def resolve(
    broker: Broker, task: Task, scratch_path: str, attachments: Sequence[StagedFile], max_prompt_chars: int
) -> list[StagedFile]:
    """Expand the task's inputs into a manifest and check it, before a sandbox is asked for.

    An attachment of the Turn is what was uploaded: the Root's code can change its own copy only.

    Raises:
        ChildFailed: `invalid_inputs` or `refused_name`, or why the broker can't be asked.
    """
    attached = {file.path: file for file in attachments}
    files = {path: attached[path] for path in task.inputs if path in attached}
    paths = [workspace_path(path, scratch_path) for path in task.inputs if path not in attached]
    if paths:
        async with _inputs():
            found = await broker.resolve(paths, MAX_STAGED_FILES, MAX_STAGED_BYTES)
        for file in found:
            path = named_path(file.path, scratch_path)
            files[path] = attached.get(path, replace(file, path=path))
    manifest = [files[path] for path in sorted(files)]
    check_manifest(task, manifest, max_prompt_chars)
    return manifest


async def stage(broker: Broker, sandbox: Sandbox, files: Sequence[StagedFile]) -> list[JsonValue]:
    """Copy the files into the child's sandbox; returns what the child's code sees of them.

    Raises:
        ChildFailed: `invalid_inputs`, also when a file changed since it was looked up, or why the broker failed.
    """
    if not files:
        return []
    async with _inputs():
        local = await broker.stage(sandbox, files, INPUTS_FOLDER)
    return [
        {"path": file.path, "local_path": path, "byte_size": file.byte_size, "sha256": file.sha256}
        for file, path in zip(files, local, strict=True)
    ]


@asynccontextmanager
async def _inputs() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(STAGING_SECONDS):
            yield
    except TimeoutError as error:
        raise ChildFailed("invalid_inputs", f"The inputs were not ready within {STAGING_SECONDS:g} s.") from error
    except FleetError as error:
        raise failures.of_inputs(error) from error
