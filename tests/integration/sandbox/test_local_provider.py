"""The local provider: isolation, files, ends of all kinds, and what a killed broker leaves."""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.common.errors import FleetError
from services.sandbox.providers.base import Kind, SandboxSpec
from services.sandbox.providers.local import bubblewrap, census, marker
from services.sandbox.providers.local.provider import LocalProvider
from tests.integration.sandbox.interpreter import Interpreter

REPOSITORY = Path(__file__).resolve().parents[3]


async def _opened(provider: LocalProvider, name: str, kind: Kind, workspace: str | None = None) -> Interpreter:
    await provider.create(SandboxSpec(name, kind, workspace))
    interpreter = Interpreter(await provider.connect(name))
    await interpreter.open()
    return interpreter


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _stage(provider: LocalProvider, name: str, path: str, data: bytes) -> str:
    return await provider.stage(name, path, _chunks(data), len(data), hashlib.sha256(data).hexdigest())


async def test_what_a_sandbox_sees(provider: LocalProvider, tmp_path: Path) -> None:
    root = await _opened(provider, "r1", Kind.ROOT, "w1")
    code = """
import os, socket
print(os.getcwd(), os.getuid(), os.getpid() != 1, socket.gethostname())
print(sorted(os.listdir('/')))
def attempt(action):
    try:
        action()
        print('done')
    except OSError:
        print('refused')
for path in ('/x', '/opt/python/x', '/opt/fleet/x', '/usr/x', '/dev/x', '/etc/x', '/proc/sys/kernel/hostname'):
    attempt(lambda: open(path, 'w'))
for path in ('/root', '/home', '/etc/shadow', '/var', '/sys'):
    attempt(lambda: os.stat(path))
for family, address in ((socket.AF_INET, ('127.0.0.1', 1)), (socket.AF_INET, ('1.1.1.1', 53))):
    attempt(lambda: socket.create_connection(address, 1))
attempt(lambda: socket.socket(40, socket.SOCK_STREAM))
for path in ('/workspace/w', '/scratch/s', '/tmp/t', '/dev/shm/m'):
    open(path, 'w').write('ok')
attempt(lambda: open('/workspace/big', 'wb').write(bytes(17 << 20)))
attempt(lambda: open('/tmp/big', 'wb').write(bytes(17 << 20)))
print(len([p for p in os.listdir('/proc') if p.isdigit()]))
"""
    lines = (await root.run(code)).output.splitlines()
    assert lines[0] == "/workspace 1000 True r1"
    assert set(eval(lines[1])) >= {"workspace", "scratch", "tmp", "proc", "dev", "opt", "usr"}
    assert not set(eval(lines[1])) & {"root", "home", "var", "sys", "work", "srv", "mnt"}
    assert lines[2:-1] == ["refused"] * 17
    assert lines[-1] == "2"
    assert (tmp_path / "data" / "workspaces" / "w1" / "w").read_text() == "ok"


async def test_an_interrupt_from_the_terminal_does_not_reach_sandboxes(provider: LocalProvider) -> None:
    await provider.create(SandboxSpec("quiet", Kind.CHILD))
    own = os.getpgrp()
    commands = {pid: _command(pid) for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit())}
    monitors = [pid for pid, command in commands.items() if b"bwrap" in command and _parent(pid) == os.getpid()]
    assert monitors
    assert all(os.getpgid(pid) != own for pid in monitors)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_children_see_no_workspace(provider: LocalProvider) -> None:
    await (await _opened(provider, "r1", Kind.ROOT, "w1")).run("open('/workspace/secret', 'w').write('s')")
    child = await _opened(provider, "c1", Kind.CHILD)
    code = "import os\nprint(os.getcwd(), os.path.exists('/workspace'), os.listdir('/scratch'))"
    assert (await child.run(code)).output == "/scratch False []\n"
    await child.run("open('/scratch/own', 'w').write('c1')")
    other = await _opened(provider, "c2", Kind.CHILD)
    assert (await other.run("os = __import__('os'); os.listdir('/scratch')")).result_repr == "[]"
    assert (await other.run("sum(p.isdigit() for p in os.listdir('/proc'))")).result_repr == "2"


async def test_roots_of_one_workspace_share_its_files(provider: LocalProvider) -> None:
    first = await _opened(provider, "r1", Kind.ROOT, "w1")
    await first.run("import os; os.makedirs('/workspace/files'); open('/workspace/files/a', 'w').write('1')")
    await provider.destroy("r1")
    second = await _opened(provider, "r2", Kind.ROOT, "w1")
    code = "open('/workspace/files/a', 'a').write('2'); open('/workspace/files/a').read()"
    assert (await second.run(code)).result_repr == "'12'"
    other = await _opened(provider, "r3", Kind.ROOT, "w2")
    assert (await other.run("import os; os.listdir('/workspace')")).result_repr == "[]"


async def test_staging_and_collecting(provider: LocalProvider) -> None:
    root = await _opened(provider, "r1", Kind.ROOT, "w1")
    path = await _stage(provider, "r1", "attachments/a1/notes.txt", b"hello")
    assert path == "/workspace/attachments/a1/notes.txt"
    code = (
        f"p = {path!r}\nt = open(p).read()\nopen(p, 'a').write('!')\n"
        "open('/workspace/attachments/a1/new', 'w').write(t * 2)"
    )
    assert (await root.run(code)).status == "ok"
    found = await provider.find("r1", "attachments/a1/new", 100)
    assert found.byte_size == 10
    assert b"".join([chunk async for chunk in provider.read("r1", found)]) == b"hellohello"
    resolved = await provider.resolve("w1", ["attachments"], 10, 1_000)
    assert [file.path for file in resolved] == ["attachments/a1/new", "attachments/a1/notes.txt"]
    child = await _opened(provider, "c1", Kind.CHILD)
    read = provider.read_workspace("w1", found)
    local = await provider.stage("c1", "inputs/new", read, found.byte_size, found.sha256)
    assert (await child.run(f"open({local!r}).read()")).result_repr == "'hellohello'"


async def test_planted_links_lead_nowhere(provider: LocalProvider, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    root = await _opened(provider, "r1", Kind.ROOT, "w1")
    await root.run(
        f"import os\nos.symlink({str(outside)!r}, '/workspace/attachments')\n"
        f"os.symlink({str(outside / 'secret')!r}, '/workspace/file')\nos.mkfifo('/workspace/pipe')"
    )
    for path in ("file", "attachments/secret", "pipe"):
        with pytest.raises(FleetError) as refused:
            await provider.find("r1", path, 100)
        assert refused.value.reason == "FILE_NOT_REGULAR"
    await _stage(provider, "r1", "attachments/x", b"x")
    assert (await root.run("open('/workspace/attachments/x').read()")).result_repr == "'x'"
    await _stage(provider, "r1", "file", b"replaced")
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_text() == "secret"


async def test_destroying(provider: LocalProvider, tmp_path: Path) -> None:
    child = await _opened(provider, "c1", Kind.CHILD)
    await child.run(
        "import os, subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "os.makedirs('/scratch/a/b'); open('/scratch/a/b/f', 'w').write('x')\n"
        "os.chmod('/scratch/a/b', 0); os.chmod('/scratch/a', 0)"
    )
    running = await child.start("while True: pass", timeout=100)
    assert not await provider.confirm_absent("c1")
    assert [owned.name for owned in await provider.list_owned()] == ["c1"]
    mark = marker.read(tmp_path / "data" / "sandbox" / "local" / "c1" / "marker.json")
    assert mark is not None
    assert marker.is_alive(mark)
    await provider.destroy("c1")
    assert running
    assert await provider.confirm_absent("c1")
    assert not marker.is_alive(mark)
    assert await provider.list_owned() == []
    await provider.destroy("c1")
    with pytest.raises(FleetError) as lost:
        await provider.connect("c1")
    assert lost.value.reason == "LEASE_LOST"


async def test_a_sandbox_that_ends_by_itself_is_noticed(provider: LocalProvider, tmp_path: Path) -> None:
    child = await _opened(provider, "c1", Kind.CHILD)
    mark = marker.read(tmp_path / "data" / "sandbox" / "local" / "c1" / "marker.json")
    assert mark is not None
    os.kill(mark.pid, signal.SIGKILL)
    assert await asyncio.wait_for(child.channel.receive(), 10) is None
    assert not await provider.confirm_absent("c1")


async def test_cancelled_creation_leaves_nothing(provider: LocalProvider) -> None:
    for turns in (1, 5, 20, 60):
        creating = asyncio.create_task(provider.create(SandboxSpec("c1", Kind.CHILD)))
        for _ in range(turns):
            await asyncio.sleep(0)
        creating.cancel()
        await asyncio.wait((creating,))
        if not creating.cancelled():
            await provider.destroy("c1")
        assert await provider.confirm_absent("c1")


async def test_health(provider: LocalProvider) -> None:
    health = await provider.health()
    assert (health.ok, health.detail) == (True, "bubblewrap")
    assert await provider.list_owned() == []


class Victim:
    """A broker's process of its own."""

    def __init__(self, data_root: Path, name: str, code: str = "1", *prefix: str) -> None:
        self.process = subprocess.Popen(
            [
                *prefix,
                sys.executable,
                str(REPOSITORY / "tests/integration/sandbox/victim.py"),
                str(data_root),
                name,
                code,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'gen'}"},
        )

    def said(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate(timeout=20)


async def test_killing_the_broker_ends_its_sandboxes(provider: LocalProvider, tmp_path: Path) -> None:
    victim = Victim(
        tmp_path / "data",
        "v1",
        "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\nprint('up')",
    )
    assert (await asyncio.to_thread(victim.said))["output"] == "up\n"
    mark = marker.read(tmp_path / "data" / "sandbox" / "local" / "v1" / "marker.json")
    assert mark is not None
    assert marker.is_alive(mark)
    descriptor = os.pidfd_open(mark.pid)
    victim.process.kill()
    victim.end()
    await asyncio.to_thread(_wait_ended, descriptor)
    assert not marker.is_alive(mark)
    assert [owned.name for owned in await provider.list_owned()] == ["v1"]
    assert not await provider.confirm_absent("v1")
    await provider.destroy("v1")
    assert await provider.confirm_absent("v1")


def _wait_ended(descriptor: int) -> None:
    import select

    assert select.select([descriptor], [], [], 10)[0]
    os.close(descriptor)


async def test_a_foreign_sandbox_that_still_runs_is_ended(provider: LocalProvider, tmp_path: Path) -> None:
    victim = Victim(tmp_path / "data", "v1")
    await asyncio.to_thread(victim.said)
    mark = marker.read(tmp_path / "data" / "sandbox" / "local" / "v1" / "marker.json")
    assert mark is not None
    await provider.destroy("v1")
    assert not marker.is_alive(mark)
    assert await provider.confirm_absent("v1")
    victim.process.kill()
    victim.end()


async def test_a_reused_process_number_is_left_alone(provider: LocalProvider, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "sandbox" / "local" / "old"
    folder.mkdir()
    bystander = subprocess.Popen(["sleep", "1000"])
    marker.write(folder / "marker.json", "old", bystander.pid)
    await provider.destroy("old")
    assert await provider.confirm_absent("old")
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_an_ordinary_user_gets_the_same_sandbox(tmp_path: Path) -> None:
    code = (
        "import os\nopen('/workspace/f', 'w').write('x')\n"
        "print(os.getuid(), os.listdir('/workspace'), os.path.exists('/proc/1/mem'))"
    )
    victim = Victim(tmp_path, "v1", code, "unshare", "--user", "--map-user=1000", "--map-group=1000")
    said = victim.said()
    victim.end()
    assert said.get("output") == "1000 ['f'] True\n", said


def test_without_namespaces_it_fails_closed(tmp_path: Path) -> None:
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    victim = Victim(tmp_path, "v1", "1", "unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh")
    said = victim.said()
    victim.end()
    assert said["reason"] == "SANDBOX_ISOLATION_UNAVAILABLE"
    assert "user.max_user_namespaces" in said["message"]
    assert str(tmp_path) not in said["message"]
    assert os.listdir(tmp_path / "sandbox" / "local") == []


async def test_starts_that_are_broken_off_leave_no_process(provider: LocalProvider) -> None:
    for moment in range(12):
        name = f"broken-{moment}"
        creating = asyncio.create_task(provider.create(SandboxSpec(name, Kind.CHILD)))
        await asyncio.wait((creating,), timeout=moment * 0.003)
        creating.cancel()
        await asyncio.wait((creating,))
        if not creating.cancelled():
            await provider.destroy(name)
        assert census.find(name) == []
        assert await provider.confirm_absent(name)


async def test_a_broker_killed_in_the_middle_of_a_start(provider: LocalProvider, tmp_path: Path) -> None:
    """Whatever stage the start had reached, the sandbox is found by name and ended."""
    read, write = os.pipe()
    read_info, info = os.pipe()
    words = ["--unshare-user", "--unshare-pid", "--unshare-uts", "--hostname", "v1", "--die-with-parent"]
    words += ["--info-fd", str(info), "--userns-block-fd", str(read), "--ro-bind", "/", "/", "sleep", "1000"]
    blocked = subprocess.Popen([str(bubblewrap.find()), *words], pass_fds=[read, info])
    async with asyncio.timeout(10):
        while len(census.find("v1")) < 2:
            await asyncio.sleep(0.01)
    blocked.kill()
    blocked.wait()
    assert len(census.find("v1")) == 1
    (tmp_path / "data" / "sandbox" / "local" / "v1").mkdir()
    assert [owned.name for owned in await provider.list_owned()] == ["v1"]
    assert not await provider.confirm_absent("v1")
    await provider.destroy("v1")
    assert census.find("v1") == []
    assert await provider.confirm_absent("v1")
    for descriptor in (read, write, info, read_info):
        os.close(descriptor)
