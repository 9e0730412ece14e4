"""Files below a folder that somebody hostile changes."""

import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from services.common.errors import FleetError
from services.sandbox.files.folder import Folder, FoundFile, Owner


async def _chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return tmp_path / "root"


@pytest.fixture
def folder(root: Path) -> Folder:
    return Folder(root, Owner())


def _refused(error: pytest.ExceptionInfo[FleetError], reason: str) -> None:
    assert error.value.reason == reason
    assert "/root" not in error.value.message


async def test_write_then_find_then_read(folder: Folder, root: Path) -> None:
    await folder.write("a/b/c.bin", _chunks(b"12", b"345"), 5, _sha(b"12345"))
    found = folder.find("a/b/c.bin", 10)
    assert found == FoundFile("a/b/c.bin", 5, _sha(b"12345"))
    assert b"".join(folder.read(found)) == b"12345"
    await folder.write("a/b/c.bin", _chunks(b"6"), 1, _sha(b"6"))
    assert os.listdir(root / "a" / "b") == ["c.bin"]


@pytest.mark.parametrize("parts", [(b"1234",), (b"123456",), (b"54321",)])
async def test_bytes_that_are_not_the_manifests_leave_nothing(
    folder: Folder, root: Path, parts: tuple[bytes, ...]
) -> None:
    with pytest.raises(FleetError) as error:
        await folder.write("x", _chunks(*parts), 5, _sha(b"12345"))
    _refused(error, "DATA_CORRUPTED")
    assert os.listdir(root) == []


async def test_a_failing_source_leaves_nothing(folder: Folder, root: Path) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"1"
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await folder.write("x", source(), 5, _sha(b"12345"))
    assert os.listdir(root) == []


async def test_links_are_never_followed(folder: Folder, root: Path) -> None:
    (root / "dir").symlink_to("../outside")
    (root / "file").symlink_to("../outside/secret")
    (root / "dangling").symlink_to("../outside/new")
    for path in ("dir/secret", "file"):
        with pytest.raises(FleetError) as error:
            folder.find(path, 100)
        _refused(error, "FILE_NOT_REGULAR")
    for name in ("file", "dangling"):
        await folder.write(name, _chunks(b"new"), 3, _sha(b"new"))
        assert not (root / name).is_symlink()
    outside = root.parent / "outside"
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_text() == "secret"


async def test_a_folder_that_becomes_a_link_during_the_write(folder: Folder, root: Path) -> None:
    async def swap() -> AsyncIterator[bytes]:
        (root / "a").rename(root / "moved")
        (root / "a").symlink_to("../outside")
        yield b"x"

    await folder.write("a/f", swap(), 1, _sha(b"x"))
    assert os.listdir(root.parent / "outside") == ["secret"]
    assert (root / "moved" / "f").read_bytes() == b"x"


@pytest.mark.parametrize("where", ["a", "a/b"])
async def test_what_is_in_the_way_is_moved_aside(folder: Folder, root: Path, where: str) -> None:
    plants: list[Callable[[Path], object]] = [
        lambda path: path.symlink_to("../outside", target_is_directory=True),
        lambda path: path.symlink_to("missing"),
        lambda path: path.write_text("mine"),
        os.mkfifo,
    ]
    for plant in plants:
        (root / where).parent.mkdir(exist_ok=True)
        plant(root / where)
        await folder.write("a/b/c", _chunks(b"x"), 1, _sha(b"x"))
        assert (root / "a" / "b" / "c").read_bytes() == b"x"
        shutil.rmtree(root / "a")
    (root / "a" / "b" / "c").mkdir(parents=True)
    (root / "a" / "b" / "c" / "mine").write_text("mine")
    await folder.write("a/b/c", _chunks(b"x"), 1, _sha(b"x"))
    assert (root / "a" / "b" / "c").read_bytes() == b"x"
    (moved,) = [path for path in (root / "a" / "b").iterdir() if path.name != "c"]
    assert (moved / "mine").read_text() == "mine"
    assert os.listdir(root.parent / "outside") == ["secret"]


def test_devices_pipes_and_folders_are_no_files(folder: Folder, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "dir").mkdir()
    for path in ("pipe", "dir"):
        with pytest.raises(FleetError) as error:
            folder.find(path, 100)
        _refused(error, "FILE_NOT_REGULAR")
    with pytest.raises(FleetError) as error:
        folder.find("missing/x", 100)
    _refused(error, "FILE_NOT_FOUND")


def test_limits(folder: Folder, root: Path) -> None:
    (root / "big").write_bytes(bytes(100))
    with pytest.raises(FleetError) as error:
        folder.find("big", 99)
    _refused(error, "FILE_LIMIT_EXCEEDED")


@pytest.mark.parametrize("change", [b"x" * 6, b"x" * 4, b"y" * 5])
def test_a_changed_file_is_noticed(folder: Folder, root: Path, change: bytes) -> None:
    (root / "f").write_bytes(b"x" * 5)
    found = folder.find("f", 100)
    (root / "f").write_bytes(change)
    with pytest.raises(FleetError) as error:
        list(folder.read(found))
    _refused(error, "FILE_CHANGED")


async def test_names_that_differ_only_in_case(folder: Folder) -> None:
    await folder.write("Dir/File", _chunks(b""), 0, _sha(b""))
    for path in ("dir/x", "Dir/file"):
        with pytest.raises(FleetError) as error:
            await folder.write(path, _chunks(b""), 0, _sha(b""))
        _refused(error, "PATH_INVALID")


def test_expand(folder: Folder, root: Path) -> None:
    for path in ("d/b", "d/a/x", "e"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    assert [file.path for file in folder.expand(["e", "d", "d/b"], 10, 100)] == ["d/a/x", "d/b", "e"]
    for limits in ((2, 100), (10, 5)):
        with pytest.raises(FleetError) as error:
            folder.expand(["d", "e"], *limits)
        _refused(error, "FILE_LIMIT_EXCEEDED")
    (root / "d" / "link").symlink_to("b")
    with pytest.raises(FleetError) as error:
        folder.expand(["d"], 10, 100)
    _refused(error, "FILE_NOT_REGULAR")
