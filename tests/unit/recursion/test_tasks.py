"""What a child may be asked and given."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.recursion.children.outcomes import ChildFailed
from services.recursion.children.paths import looks_secret, path_problem
from services.recursion.children.tasks import (
    StagedFile,
    Task,
    check_manifest,
    check_task,
    manifest_json,
    manifest_sha256,
    named_path,
    workspace_path,
)


def file(path: str, size: int = 1) -> StagedFile:
    return StagedFile(path, path, size, hashlib.sha256(path.encode()).hexdigest())


def category(task: Task) -> str:
    with pytest.raises(ChildFailed) as failure:
        check_task(task)
    assert failure.value.failure.message
    return failure.value.failure.category


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (Task(""), "invalid_task"),
        (Task(" \n\t"), "invalid_task"),
        (Task("x" * 2001), "invalid_task"),
        (Task("x", context="y" * 2001), "invalid_task"),
        (Task("x", tuple(f"f/{number}" for number in range(17))), "invalid_inputs"),
        (Task("x", ("a", "a")), "invalid_inputs"),
        (Task("x", ("a" * 513,)), "invalid_inputs"),
        (Task("x", ("",)), "invalid_inputs"),
        (Task("x", ("/etc/passwd",)), "invalid_inputs"),
        (Task("x", ("a/../b",)), "invalid_inputs"),
        (Task("x", ("a//b",)), "invalid_inputs"),
        (Task("x", ("a\\b",)), "invalid_inputs"),
        (Task("x", ("a\0b",)), "invalid_inputs"),
        (Task("x", ("a\ud800b",)), "invalid_inputs"),
        (Task("x", ("/".join("abcdefghi"),)), "invalid_inputs"),
        (Task("x", ("é" * 128,)), "invalid_inputs"),
        (Task("x", ("files/.env",)), "refused_name"),
    ],
)
def test_what_is_wrong_with_a_task_is_named(task: Task, expected: str) -> None:
    assert category(task) == expected


def test_the_longest_task_passes() -> None:
    check_task(Task("x" * 2000, tuple(f"f/{number}" for number in range(16)), "y" * 2000))
    check_task(Task("x", ("é" * 127,)))


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".env.local",
        "a/.ENV",
        "prod.env",
        ".ssh/config",
        "repo/.git/config",
        "keys/id_rsa",
        "id_ed25519.bak",
        "server.pem",
        "tls/server.KEY",
        "a.p12",
        "credentials",
        "aws-credentials.json",
        "credentials.csv",
        "client_secret.json",
        "secrets.yaml",
        "my-service-account.json",
        ".netrc",
        ".pgpass",
        "api_key.txt",
        ".aws/config",
    ],
)
def test_names_under_which_secrets_are_kept_are_refused(path: str) -> None:
    assert looks_secret(path)


@pytest.mark.parametrize(
    "path",
    [
        "files/report.md",
        "environment.txt",
        "secretary.txt",
        "keyboard.md",
        "attachments/01j/licence.txt",
        ".gitignore",
        "monkey.csv",
        "envelope.txt",
        "git/log.txt",
        "public_keys_of_europe.csv",
        "data/tokens.csv",
    ],
)
def test_ordinary_names_pass(path: str) -> None:
    assert not looks_secret(path)


def test_a_folder_that_holds_a_secret_is_refused() -> None:
    with pytest.raises(ChildFailed) as failure:
        check_manifest(Task("x", ("repo",)), [file("repo/a"), file("repo/.git/config")], 50_000)
    assert failure.value.failure.category == "refused_name"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ([file(f"f/{number}") for number in range(65)], 50_000),
        ([file("a", 64 * 1024 * 1024), file("b", 1)], 50_000),
        ([file("a")], 100),
    ],
)
def test_too_much_for_one_child_is_refused(files: list[StagedFile], limit: int) -> None:
    with pytest.raises(ChildFailed) as failure:
        check_manifest(Task("x", ("f",)), files, limit)
    assert failure.value.failure.category == "invalid_inputs"


@given(st.permutations([file("b"), file("a/c"), file("a/b", 7)]))
def test_the_manifest_does_not_depend_on_order(files: list[StagedFile]) -> None:
    assert manifest_sha256(files) == manifest_sha256([file("a/b", 7), file("a/c"), file("b")])
    assert manifest_json(files).startswith('[{"byte_size":7,"path":"a/b","sha256":"')


@given(st.text(max_size=40))
def test_a_path_without_a_problem_stays_below_its_root(path: str) -> None:
    if path_problem(path) is None:
        segments = path.split("/")
        assert segments
        assert all(segment not in ("", ".", "..") for segment in segments)
        assert "\\" not in path
        assert path.encode()


@pytest.mark.parametrize("path", ["children/1/a.txt", "children", "files/children/a.txt", "attachments/a/b"])
def test_results_of_earlier_children_are_in_the_scratch(path: str) -> None:
    there = workspace_path(path, "sessions/s/turns/t")
    assert there == (f"sessions/s/turns/t/{path}" if path.startswith("children") else path)
    assert named_path(there, "sessions/s/turns/t") == path
