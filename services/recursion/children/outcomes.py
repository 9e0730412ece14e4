"""How a child's work is reported: outcomes, failures and the limits on what a child may bring back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from services.common.text import clean
from services.rlm.models.usage import ModelUse

MAX_FINDINGS = 32
"""Items of `evidence` and of `gaps`."""
MAX_FINDING_CHARS = 512
"""Characters of one item."""
MAX_RESULT_FILES = 16
"""Declared result files of a child."""
MAX_RESULT_BYTES = 50_000
"""Bytes of a child's answer and result files together."""


class ChildStatus(StrEnum):
    """How a child ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"


class Cleanup(StrEnum):
    """Where the clean-up of a child's sandbox is."""

    NONE = "none"
    PENDING = "pending"
    CONFIRMED = "confirmed"


@dataclass(frozen=True)
class ResultFile:
    """A harvested file.

    Attributes:
        path: relative to the Turn's scratch, `children/<k>/…`.
        local_path: where the Root's code finds it.
        byte_size: its size.
        sha256: of its bytes, hexadecimal.
    """

    path: str
    local_path: str
    byte_size: int
    sha256: str


@dataclass(frozen=True)
class Failure:
    """Why a child has no answer: a short category and a public message."""

    category: str
    message: str


@dataclass(frozen=True)
class Findings:
    """What a child submitted, within the limits.

    Attributes:
        answer: the answer.
        evidence: what it rests on.
        gaps: what it leaves open.
        result_files: declared paths, relative to the child's mount root.
    """

    answer: str
    evidence: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    result_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a child brought back.

    Attributes:
        status: how it ended.
        child_id: the child's id; empty when it was never started.
        findings: what it submitted.
        files: the harvested result files.
        source_manifest_sha256: SHA-256 of the manifest of its inputs.
        termination: "submit", "extract" or empty.
        usage: what it used.
        iterations: steps it made.
        cleanup: where the clean-up of its sandbox is.
        duration_ms: from its start to its outcome.
        failure: why there is no answer.
    """

    status: ChildStatus
    child_id: str = ""
    findings: Findings = Findings("")
    files: tuple[ResultFile, ...] = ()
    source_manifest_sha256: str = ""
    termination: str = ""
    usage: tuple[ModelUse, ...] = ()
    iterations: int = 0
    cleanup: Cleanup = Cleanup.NONE
    duration_ms: int = 0
    failure: Failure | None = None


class ChildFailed(Exception):
    """A child can't go on; becomes its outcome.

    Attributes:
        status: how it ended.
        failure: the category and the public message.
    """

    def __init__(self, category: str, message: str, status: ChildStatus = ChildStatus.FAILED) -> None:
        super().__init__(message)
        self.status = status
        self.failure = Failure(category, clean(message))


def read_findings(outputs: Mapping[str, object]) -> Findings:
    """Check a child's typed outputs and cut evidence and gaps to their limits.

    Raises:
        ChildFailed: `invalid_output` for an answer that is blank or too long, `invalid_results` for result files that
            are too many or named twice.
    """
    answer = clean(str(outputs.get("answer") or ""))
    if not answer.strip():
        raise ChildFailed("invalid_output", "The child's answer is blank.")
    size = len(answer.encode())
    if size > MAX_RESULT_BYTES:
        raise ChildFailed("invalid_output", f"The child's answer has {size} bytes; at most {MAX_RESULT_BYTES} fit.")
    return Findings(
        answer=answer,
        evidence=_bounded(_texts(outputs.get("evidence"))),
        gaps=_bounded(_texts(outputs.get("gaps"))),
        result_files=_declared(_texts(outputs.get("result_files"))),
    )


def _declared(paths: Sequence[str]) -> tuple[str, ...]:
    if len(paths) > MAX_RESULT_FILES:
        message = f"The child declared {len(paths)} result files; at most {MAX_RESULT_FILES} are allowed."
        raise ChildFailed("invalid_results", message)
    if len(set(paths)) != len(paths):
        raise ChildFailed("invalid_results", "The child declared a result file twice.")
    return tuple(paths)


def _bounded(items: Sequence[str]) -> tuple[str, ...]:
    """Items cut at their limits: a finding too many must not cost the child its answer."""
    kept = [item if len(item) <= MAX_FINDING_CHARS else item[: MAX_FINDING_CHARS - 1] + "…" for item in items if item]
    if len(kept) <= MAX_FINDINGS:
        return tuple(kept)
    left_out = len(kept) - (MAX_FINDINGS - 1)
    return (*kept[: MAX_FINDINGS - 1], f"({left_out} more items were left out)")


def _texts(value: object) -> list[str]:
    return [clean(str(item)) for item in value] if isinstance(value, list | tuple) else []
