"""What a child is asked to do: the rules of its task, inputs and context, and the manifest of what it gets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from services.recursion.children.outcomes import ChildFailed
from services.recursion.children.paths import MAX_PATH_CHARS, looks_secret, path_problem

MAX_TASK_CHARS = 2_000
MAX_CONTEXT_CHARS = 2_000
MAX_INPUTS = 16
MAX_STAGED_FILES = 64
MAX_STAGED_BYTES = 64 * 1024 * 1024
STAGING_SECONDS = 30.0
"""How long inputs may take from the first look to the last byte."""

INPUTS_FOLDER = "inputs"
"""Folder below the child's mount root that holds its inputs."""
RESULTS_FOLDER = "children"
"""Folder of the Turn's scratch that holds the result files of its children."""


@dataclass(frozen=True)
class Task:
    """What a child is to do.

    Attributes:
        task: the task.
        inputs: relative paths of files and folders of the workspace, or `children/<k>/…` in the Turn's scratch.
        context: what it should know besides.
    """

    task: str
    inputs: tuple[str, ...] = ()
    context: str = ""


@dataclass(frozen=True)
class StagedFile:
    """A file that a child gets.

    Attributes:
        path: as the caller named it.
        workspace_path: where its bytes come from, relative to the workspace.
        byte_size: its size.
        sha256: of its bytes, hexadecimal.
        blob_key: where its bytes come from instead, when it isn't empty: a key of the blob store.
    """

    path: str
    workspace_path: str
    byte_size: int
    sha256: str
    blob_key: str = ""


def check_task(task: Task) -> None:
    """Check everything that can be seen before a file is touched.

    Raises:
        ChildFailed: `invalid_task`, `invalid_inputs` or `refused_name`.
    """
    if not task.task.strip():
        raise ChildFailed("invalid_task", "The task is blank; say what the child is to find out.")
    _check_length("task", task.task, MAX_TASK_CHARS)
    _check_length("context", task.context, MAX_CONTEXT_CHARS)
    if len(task.inputs) > MAX_INPUTS:
        message = f"{len(task.inputs)} inputs were given; at most {MAX_INPUTS} are allowed. A folder counts as one."
        raise ChildFailed("invalid_inputs", message)
    if len(set(task.inputs)) != len(task.inputs):
        raise ChildFailed("invalid_inputs", "An input was given twice.")
    for path in task.inputs:
        _check_input(path)


def check_manifest(task: Task, files: Sequence[StagedFile], max_prompt_chars: int) -> None:
    """Check what the inputs expanded to.

    Raises:
        ChildFailed: `refused_name`, or `invalid_inputs` for too many files or bytes or a prompt that is too long.
    """
    for file in files:
        _refuse_secret(file.path)
    if len(files) > MAX_STAGED_FILES:
        raise ChildFailed(
            "invalid_inputs", f"The inputs are {len(files)} files; at most {MAX_STAGED_FILES} are allowed."
        )
    size = sum(file.byte_size for file in files)
    if size > MAX_STAGED_BYTES:
        raise ChildFailed("invalid_inputs", f"The inputs have {size} bytes; at most {MAX_STAGED_BYTES} are allowed.")
    length = len(task.task) + len(task.context) + len(manifest_json(files))
    if length > max_prompt_chars:
        message = f"Task, context and manifest have {length} characters; at most {max_prompt_chars} are allowed."
        raise ChildFailed("invalid_inputs", message)


def manifest_json(files: Sequence[StagedFile]) -> str:
    """The manifest as canonical JSON: path, size and SHA-256 of every file, sorted by path."""
    entries = [{"byte_size": file.byte_size, "path": file.path, "sha256": file.sha256} for file in files]
    entries.sort(key=lambda entry: str(entry["path"]))
    return json.dumps(entries, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def manifest_sha256(files: Sequence[StagedFile]) -> str:
    """SHA-256 of the manifest, hexadecimal."""
    return hashlib.sha256(manifest_json(files).encode()).hexdigest()


def workspace_path(path: str, scratch_path: str) -> str:
    """Where an input lies in the workspace: earlier children's results are in the Turn's scratch."""
    if path == RESULTS_FOLDER or path.startswith(RESULTS_FOLDER + "/"):
        return f"{scratch_path}/{path}"
    return path


def named_path(path: str, scratch_path: str) -> str:
    """How the caller names a path of the workspace: the inverse of `workspace_path`."""
    return path.removeprefix(f"{scratch_path}/")


def _check_input(path: str) -> None:
    problem = path_problem(path)
    if problem is not None:
        raise ChildFailed("invalid_inputs", f"Input {_shown(path)} {problem}.")
    _refuse_secret(path)


def _refuse_secret(path: str) -> None:
    if looks_secret(path):
        message = f"Input {_shown(path)} has a name under which secrets are kept; children don't get such files."
        raise ChildFailed("refused_name", message)


def _check_length(name: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise ChildFailed("invalid_task", f"The {name} has {len(text)} characters; at most {limit} are allowed.")


def _shown(path: str) -> str:
    cut = path if len(path) <= MAX_PATH_CHARS else path[: MAX_PATH_CHARS - 1] + "…"
    return repr(cut)
