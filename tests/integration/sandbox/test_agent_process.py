"""The agent without a process namespace of its own, as in a container: it still ends all that code starts."""

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.sandbox import bundle
from services.sandbox.providers.local.channel import SocketChannel
from tests.integration.sandbox.interpreter import Interpreter


@pytest.fixture
async def interpreter(tmp_path: Path) -> AsyncIterator[Interpreter]:
    limits = {"cpu_seconds": 20, "memory_mb": 1_000, "processes": 4_000, "files_mb": 16}
    configuration = {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "mount_root": str(tmp_path),
        "grace_seconds": 0.5,
        "limits": limits,
    }
    ours, theirs = socket.socketpair()
    program = bundle.install(tmp_path, {}) / bundle.START
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(program), "name", json.dumps(configuration)],
        stdin=theirs.fileno(),
        stdout=theirs.fileno(),
        cwd=tmp_path,
    )
    theirs.close()
    interpreter = Interpreter(await SocketChannel.open(ours))
    await interpreter.open()
    yield interpreter
    await interpreter.channel.close()
    assert process.wait(10) == 0


async def _daemon(interpreter: Interpreter) -> int:
    """Start a process whose parent ends and that has a session of its own; return its number."""
    code = (
        "import os, subprocess, sys\nread, write = os.pipe()\n"
        "inner = 'import os, time; os.setsid(); os.write(%d, str(os.getpid()).encode()); time.sleep(1000)' % write\n"
        "outer = f'import subprocess, sys; subprocess.Popen([sys.executable, \"-c\", {inner!r}], pass_fds=[{write}])'\n"
        "subprocess.run([sys.executable, '-c', outer], pass_fds=[write])\nprint(os.read(read, 99).decode())"
    )
    result = await interpreter.run(code, timeout=30)
    assert result.status == "ok", result
    return int(result.output)


@pytest.mark.parametrize("end", ["import os; os._exit(3)", "sum(range(10**12))"])
async def test_processes_in_sessions_of_their_own_end_with_the_worker(interpreter: Interpreter, end: str) -> None:
    daemon = await _daemon(interpreter)
    assert os.path.exists(f"/proc/{daemon}")
    result = await interpreter.run(end, timeout=0.2)
    assert result.state_lost
    assert not os.path.exists(f"/proc/{daemon}")
    assert (await interpreter.run("1 + 1")).result_repr == "2"


async def test_everything_ends_with_the_channel(interpreter: Interpreter) -> None:
    daemon = await _daemon(interpreter)
    descriptor = os.pidfd_open(daemon)
    await interpreter.channel.close()
    assert select.select([descriptor], [], [], 10)[0]
    os.close(descriptor)


async def test_memory_of_other_programs_is_not_counted(interpreter: Interpreter) -> None:
    ballast = bytearray(os.urandom(1 << 20) * 1_100)  # more than the interpreter's whole limit, in this process
    assert (await interpreter.run("kept = 1\nimport time; time.sleep(0.6)")).status == "ok"
    assert (await interpreter.run("kept")).result_repr == "1"
    assert len(ballast) > 1_000 << 20


async def test_bytes_that_are_no_frames_end_the_agent(interpreter: Interpreter) -> None:
    assert isinstance(interpreter.channel, SocketChannel)
    assert interpreter.channel._transport is not None
    interpreter.channel._transport.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)
    frame = await interpreter.receive()
    assert frame.control["reason"].startswith("protocol")
    assert await interpreter.channel.receive() is None
