"""Options of the commands, and files that they leave for each other."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli import options, run_file
from cli.commands.up import _refuse_a_second
from cli.components import needed
from cli.lines import Lines
from cli.main import app
from cli.stack import on_free_ports
from config.problem import ConfigError


def test_every_wrong_attachment_is_named(tmp_path: Path) -> None:
    good = tmp_path / "a.txt"
    good.write_text("a")
    assert options.attached([good]) == [good]
    assert options.attached(None) == []
    with pytest.raises(typer.BadParameter) as caught:
        options.attached([good, tmp_path, tmp_path / "b.txt", Path(os.devnull)])
    assert caught.value.message == f"{tmp_path} is a folder; {tmp_path}/b.txt is not there; {os.devnull} is not a file"


def test_the_data_root_of_the_command_line_wins(tmp_path: Path) -> None:
    root = tmp_path / 'a "b"'
    policy = options.policy_of("local", None, ["rlm.max_iters=7", 'storage.data_root="elsewhere"'], root)
    assert (policy.rlm.max_iters, policy.storage.root) == (7, root)


def test_what_a_turn_needs() -> None:
    policy = options.policy_of("local", None, None)
    assert needed(policy, gateway=True) == ("offline", "sandbox", "recursion", "session", "gateway")
    assert on_free_ports(policy).services.session.address == "127.0.0.1:0"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ask", "What?", "--attach", "nowhere.txt"], "nowhere.txt"),
        (["ask", " "], "QUESTION"),
        (["chat", "--attach", "nowhere.txt"], "nowhere.txt"),
        (["ask", "What?", "--timeout", "0"], "--timeout"),
        (["up", "--port", "65536"], "--port"),
        (["serve", "nothing"], "session"),
        (["db", "check", "gateway"], "gateway"),
        (["config", "check", "--profile", "none"], "none"),
    ],
)
def test_usage_errors_exit_with_2(arguments: list[str], told: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert told in done.stderr


async def test_a_second_run_on_a_data_root_is_refused(tmp_path: Path) -> None:
    policy = options.policy_of("local", None, None, tmp_path)
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with run_file.announced(tmp_path, {"session": f"127.0.0.1:{port}", "gateway": "http://127.0.0.1:1"}):
            with pytest.raises(ConfigError, match=r"http://127\.0\.0\.1:1"):
                _refuse_a_second(policy)
            left_over = (tmp_path / run_file.NAME).read_text()
        assert run_file.running_addresses(tmp_path) is None
    (tmp_path / run_file.NAME).write_text(left_over)
    _refuse_a_second(policy)


@pytest.mark.parametrize("broken", ["", "[]", "{}", '{"addresses": {"session": "nowhere"}}'])
def test_a_broken_run_file_is_no_run(tmp_path: Path, broken: str) -> None:
    (tmp_path / run_file.NAME).write_text(broken)
    assert run_file.running_addresses(tmp_path) is None


async def test_lines_of_a_pipe_and_of_a_file(tmp_path: Path) -> None:
    read, write = os.pipe()
    lines = Lines(read)
    first = asyncio.create_task(lines.next())
    await asyncio.sleep(0)
    os.write(write, "eins\r\nzw\xe4i\nlast".encode())
    os.close(write)
    assert [await first, await lines.next(), await lines.next(), await lines.next()] == ["eins", "zwäi", "last", None]
    os.close(read)
    file = tmp_path / "lines"
    file.write_text("a\n\nb")
    with file.open() as opened:
        lines = Lines(opened.fileno())
        assert [await lines.next() for _ in range(4)] == ["a", "", "b", None]


async def test_a_prompt_can_be_left() -> None:
    read, write = os.pipe()
    waiting = asyncio.create_task(Lines(read).next())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    os.close(read)
    os.close(write)
