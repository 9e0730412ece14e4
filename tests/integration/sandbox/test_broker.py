"""The broker as its clients see it: real gRPC, real sandboxes."""

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

import grpc
import pytest
from fleet.sandbox.v1 import attach_pb2, lease_pb2, sandbox_service_pb2
from google.protobuf.duration_pb2 import Duration

from services.common.errors import FleetError
from services.common.rpc_status import translated_errors
from services.sandbox.providers.local import marker
from tests.integration.sandbox.rig import Broker, inline, make_policy, put_blob, serving

CHILD = lease_pb2.LEASE_KIND_CHILD
REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with serving(make_policy(tmp_path / "data", "sandbox.warm_root=0", "sandbox.warm_child=0")) as broker:
        yield broker
    assert os.listdir(tmp_path / "data" / "sandbox" / "local") == []


async def _refused(reason: str, call: Any) -> FleetError:
    with pytest.raises(FleetError) as error:
        await call
    assert error.value.reason == reason, error.value
    return error.value


async def test_from_lease_to_absence(broker: Broker) -> None:
    lease = await broker.acquire(request_id="first")
    assert (lease.state, lease.isolation, lease.mount_root, lease.workspace) == (
        lease_pb2.LEASE_STATE_READY,
        "bubblewrap",
        "/workspace",
        "w",
    )
    assert lease.endpoint.startswith("127.0.0.1:")
    assert await broker.acquire(request_id="first") == lease
    stream = broker.attach(lease)
    lookup = attach_pb2.ToolSpec(name="lookup", parameters=[attach_pb2.ToolParameter(name="key")])
    ready = await stream.open(lookup, fields=("answer",))
    assert (ready.epoch, ready.protocol_version, ready.mount_root, ready.last_sequence) == (1, 1, "/workspace", 1)
    await stream.start("print('hé')\nSUBMIT(lookup('k'))")
    output = await stream.read()
    assert (output.output.data.decode(), output.output.stderr) == ("hé\n", False)
    call = (await stream.read()).tool_call
    assert (call.name, json.loads(call.arguments)) == ("lookup", {"key": "k"})
    await stream.write(tool_result=attach_pb2.ToolResult(call_id=call.call_id, value=b'"v"'))
    done = await stream.finish()
    assert (done.status, done.final, done.output) == (attach_pb2.EXECUTION_STATUS_FINAL, b'{"answer":"v"}', "hé\n")
    assert 0 < done.host_wait_us < done.duration_us
    await stream.start("lookup('bad')")
    call = (await stream.read()).tool_call
    await stream.write(tool_result=attach_pb2.ToolResult(call_id=call.call_id, error="no"))
    done = await stream.finish()
    assert (done.status, done.error.type, done.error.message, done.error.line) == (
        attach_pb2.EXECUTION_STATUS_ERROR,
        "ToolError",
        "no",
        1,
    )
    assert await broker.release(lease)
    assert (await stream.read()).lost.reason == "The lease was released."
    with translated_errors():
        name = sandbox_service_pb2.GetLeaseRequest(name=lease.name)
        gone = await broker.stub.GetLease(name, metadata=broker.token())
    assert gone.state == lease_pb2.LEASE_STATE_ABSENT
    assert await broker.release(lease)
    with pytest.raises(FleetError) as lost:
        await broker.attach(lease).open()
    assert lost.value.reason == "LEASE_LOST"


async def test_a_fresh_data_root_is_this_users_only(tmp_path: Path) -> None:
    root = tmp_path / "fresh"
    async with serving(make_policy(root)):
        assert root.stat().st_mode & 0o777 == 0o700


async def test_every_outcome(broker: Broker) -> None:
    stream = broker.attach(await broker.acquire())
    await stream.open()
    for code, status, lost in (
        ("1 + 1", "OK", False),
        ("def f(:", "SYNTAX_ERROR", False),
        ("1 / 0", "ERROR", False),
        ("while True: pass", "TIMED_OUT", False),
        ("import os; os._exit(1)", "DIED", True),
    ):
        done = await stream.run(code, timeout_ms=300)
        assert attach_pb2.ExecutionStatus.Name(done.status) == f"EXECUTION_STATUS_{status}"
        assert done.state_lost == lost
    running = await stream.start("import time; time.sleep(100)")
    await stream.write(cancel=attach_pb2.CancelExecution(execution_id=running))
    assert (await stream.finish()).status == attach_pb2.EXECUTION_STATUS_CANCELLED
    assert (await stream.run("'x' * 3")).result_repr == "'xxx'"
    await stream.write(ping=attach_pb2.Ping(nonce=9))
    assert (await stream.read()).pong.nonce == 9


async def test_large_variables_in_parts(broker: Broker) -> None:
    stream = broker.attach(await broker.acquire(CHILD))
    await stream.open()
    data = b"v" * (9 << 20)
    sha256 = hashlib.sha256(b"\1" + data).hexdigest()
    variable = attach_pb2.Variable(name="big", sha256=sha256, encoding=attach_pb2.VARIABLE_ENCODING_TEXT)
    for start in range(0, len(data), 4 << 20):
        part = attach_pb2.VariablePart(sha256=sha256, data=data[start : start + (4 << 20)], byte_size=len(data))
        await stream.write(execute=attach_pb2.Execute(execution_id="big", values=[part], partial=True))
    execute = attach_pb2.Execute(execution_id="big", code=b"len(big)", variables=[variable])
    await stream.write(execute=execute)
    assert (await stream.finish()).result_repr == str(len(data))
    assert (await stream.run("len(big)", variables=[variable])).result_repr == str(len(data))
    assert list((await stream.open()).values) == [sha256]


async def test_a_dropped_stream_goes_on_where_it_stopped(broker: Broker) -> None:
    lease = await broker.acquire()
    first = broker.attach(lease)
    await first.open()
    await first.start("print('one')\nimport time; time.sleep(0.3)\nprint('two')\nn = globals().get('n', 0) + 1")
    assert (await first.read()).output.data == b"one\n"
    first.call.cancel()
    second = broker.attach(lease)
    second.sequence, second.seen = first.sequence, first.seen
    await second.write(open=attach_pb2.AttachOpen(lease=lease.name, epoch=1, last_sequence=second.seen))
    seen = [await second.read()]
    while seen[-1].WhichOneof("payload") != "done":
        seen.append(await second.read())
    assert [message.sequence for message in seen] == list(range(first.seen + 1, first.seen + 1 + len(seen)))
    assert "".join(message.output.data.decode() for message in seen) == "two\n"
    assert seen[-1].done.output == "one\ntwo\n"
    assert (await second.run("n")).result_repr == "1"


async def test_a_second_stream_takes_over(broker: Broker) -> None:
    lease = await broker.acquire()
    first = broker.attach(lease)
    await first.open()
    second = broker.attach(lease)
    await second.open()
    taken = await _refused("SANDBOX_PROTOCOL", first.read())
    assert "took over" in taken.message
    assert (await second.run("1")).result_repr == "1"


async def test_what_a_stream_must_not_say(broker: Broker) -> None:
    lease, other = await broker.acquire(), await broker.acquire(CHILD)
    stream = broker.attach(lease)
    await stream.write(ping=attach_pb2.Ping())
    await _refused("SANDBOX_PROTOCOL", stream.read())
    await _refused("STALE_EPOCH", broker.attach(lease).open(epoch=2))
    await _refused("LEASE_NOT_FOUND", broker.attach(lease).open(lease="leases/none"))
    stream = broker.attach(lease)
    await stream.open()
    await stream.write(open=attach_pb2.AttachOpen(lease=other.name, epoch=1))
    await _refused("SANDBOX_PROTOCOL", stream.read())
    stream = broker.attach(lease)
    await stream.open()
    stream.sequence += 1
    await stream.start("1")
    assert "missing" in (await stream.read()).lost.reason


async def test_staging_from_blobs_workspace_and_inline(broker: Broker) -> None:
    data = os.urandom(700_000)
    await put_blob(broker.policy, "attachments/w/a1", data)
    root = await broker.acquire()
    blob = inline("attachments/a1/data.bin", data, blob_key="attachments/w/a1")
    staged = await broker.stage(root, a=blob, b=inline("files/note.txt", b"note"))
    assert [file.local_path for file in staged] == ["/workspace/attachments/a1/data.bin", "/workspace/files/note.txt"]
    stream = broker.attach(root)
    await stream.open()
    code = "import hashlib\nhashlib.sha256(open('/workspace/attachments/a1/data.bin', 'rb').read()).hexdigest()"
    assert (await stream.run(code)).result_repr == repr(hashlib.sha256(data).hexdigest())
    assert await broker.stage(root, a=blob)
    await stream.run("open('/workspace/attachments/a1/data.bin', 'wb').write(b'changed')")
    await broker.stage(root, a=blob)
    assert (await stream.run(code)).result_repr == repr(hashlib.sha256(data).hexdigest())
    found = await broker.resolve("files", "attachments/a1/data.bin")
    assert [file.path for file in found] == ["attachments/a1/data.bin", "files/note.txt"]
    child = await broker.acquire(CHILD)
    inputs = {
        str(number): inline(
            f"inputs/{file.path}", b"", workspace_path=file.path, byte_size=file.byte_size, sha256=file.sha256
        )
        for number, file in enumerate(found)
    }
    staged = await broker.stage(child, **inputs)
    assert [file.local_path for file in staged] == [f"/scratch/inputs/{file.path}" for file in found]
    in_child = broker.attach(child)
    await in_child.open()
    await in_child.run("import os; os.mkdir('out'); open('out/result', 'wb').write(b'r' * 600_000)")
    assert await broker.collect(child, "out/result", "inputs/files/note.txt") == {
        "out/result": b"r" * 600_000,
        "inputs/files/note.txt": b"note",
    }
    await _refused("FILE_LIMIT_EXCEEDED", broker.collect(child, "out/result", max_bytes=599_999))


async def test_what_is_not_staged(broker: Broker) -> None:
    root, child = await broker.acquire(), await broker.acquire(CHILD)
    await put_blob(broker.policy, "b1", b"12345")
    for lease, reason, file in (
        (root, "PATH_INVALID", inline("../x", b"x")),
        (root, "PATH_INVALID", inline("/x", b"x")),
        (root, "DATA_CORRUPTED", inline("x", b"12345", inline=b"54321")),
        (root, "DATA_CORRUPTED", inline("x", b"1234", blob_key="b1")),
        (root, "FILE_NOT_FOUND", inline("x", b"", blob_key="missing")),
        (child, "FILE_NOT_FOUND", inline("x", b"", workspace_path="files/missing")),
        (child, "PATH_INVALID", inline("x", b"", workspace_path="../../etc/passwd")),
        (child, "PATH_REFUSED", inline(".env", b"x")),
        (child, "PATH_REFUSED", inline("x", b"", workspace_path=".ssh/id_rsa")),
    ):
        await _refused(reason, broker.stage(lease, f=file))
    await _refused("PATH_INVALID", broker.stage(root, a=inline("x", b""), b=inline("X", b"")))
    await _refused("PATH_REFUSED", broker.resolve("config/.env"))
    await broker.stage(root, a=inline("config/server.key", b"k"), b=inline("config/readme", b"r"))
    await _refused("PATH_REFUSED", broker.resolve("config"))
    await _refused("FILE_NOT_FOUND", broker.resolve("nowhere"))
    await broker.stage(root, a=inline("many/1", b"1"), b=inline("many/2", b"2"))
    await _refused("FILE_LIMIT_EXCEEDED", broker.resolve("many", max_files=1))
    await _refused("FILE_LIMIT_EXCEEDED", broker.resolve("many", max_bytes=1))


async def test_workspaces_are_apart(broker: Broker) -> None:
    lease = await broker.acquire()
    with translated_errors():
        mine = sandbox_service_pb2.ListLeasesRequest(session="s")
        assert [item.name for item in (await broker.stub.ListLeases(mine, metadata=broker.token())).leases] == [
            lease.name
        ]
        assert not (await broker.stub.ListLeases(mine, metadata=broker.token("other"))).leases
    release = sandbox_service_pb2.ReleaseLeaseRequest(name=lease.name)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await broker.stub.ReleaseLease(release, metadata=broker.token("other"))
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    await _refused("PERMISSION_DENIED", broker.acquire(metadata=broker.token(depth=1)))
    assert (await broker.acquire(CHILD, metadata=broker.token(depth=1))).kind == CHILD


async def test_a_lease_that_is_not_renewed_ends(broker: Broker) -> None:
    lease = await broker.acquire(CHILD, ttl=1)
    stream = broker.attach(lease)
    await stream.open()
    request = sandbox_service_pb2.RenewLeaseRequest(name=lease.name, epoch=1, ttl=Duration(seconds=1), idle=True)
    renewed = await broker.stub.RenewLease(request, metadata=broker.token())
    assert renewed.idle
    assert renewed.expire_time.ToNanoseconds() > lease.expire_time.ToNanoseconds()
    assert (await stream.read()).lost.reason == "The lease ran out."
    with pytest.raises(grpc.aio.AioRpcError) as lost:
        await broker.stub.RenewLease(request, metadata=broker.token())
    assert lost.value.code() is grpc.StatusCode.ABORTED


async def test_a_killed_sandbox_is_told(broker: Broker) -> None:
    lease = await broker.acquire()
    stream = broker.attach(lease)
    await stream.open()
    (path,) = (broker.policy.storage.root / "sandbox" / "local").glob("*/marker.json")
    os.kill(json.loads(path.read_text())["pid"], signal.SIGKILL)
    assert (await stream.read()).lost.reason == "The sandbox ended."
    await _refused("LEASE_LOST", _eventually_lost(broker, lease))


async def _eventually_lost(broker: Broker, lease: lease_pb2.Lease) -> None:
    while True:
        await broker.stage(lease, a=inline("x", b"x"))


async def test_warm_sandboxes_start_at_once(tmp_path: Path) -> None:
    async with serving(make_policy(tmp_path, "sandbox.warm_root=1", "sandbox.warm_child=1")) as broker:
        assert not (await broker.acquire()).warm
        root, child = await _warm(broker, lease_pb2.LEASE_KIND_ROOT), await _warm(broker, CHILD)
        for lease in (root, child):
            stream = broker.attach(lease)
            await stream.open()
            assert (await stream.run("1")).result_repr == "1"
    assert os.listdir(tmp_path / "sandbox" / "local") == []


async def _warm(broker: Broker, kind: lease_pb2.LeaseKind.ValueType) -> lease_pb2.Lease:
    """Take a warm lease; the background makes one in its own time."""
    while not (lease := await broker.acquire(kind)).warm:
        await broker.release(lease)
    return lease


async def test_a_killed_broker_leaves_nothing_behind(tmp_path: Path) -> None:
    data_root = tmp_path / "data"
    command = [sys.executable, "-m", "services.sandbox", "--profile", "test", "--set", f"storage.data_root={data_root}"]
    command += ["--set", "services.sandbox.address=127.0.0.1:0"]
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'gen'}"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=REPOSITORY)
    assert process.stdout is not None
    address = json.loads(await asyncio.to_thread(process.stdout.readline))["address"]
    policy = make_policy(data_root)
    async with grpc.aio.insecure_channel(address) as channel:
        from fleet.sandbox.v1 import sandbox_service_pb2_grpc

        victim = Broker(policy, sandbox_service_pb2_grpc.SandboxServiceStub(channel))
        lease = await victim.acquire()
    (path,) = (data_root / "sandbox" / "local").glob("*/marker.json")
    mark = marker.read(path)
    assert mark is not None
    assert marker.is_alive(mark)
    process.kill()
    process.communicate()
    async with serving(policy) as broker:
        assert not marker.is_alive(mark)
        assert os.listdir(data_root / "sandbox" / "local") == []
        request = sandbox_service_pb2.GetLeaseRequest(name=lease.name)
        gone = await broker.stub.GetLease(request, metadata=broker.token())
        assert (gone.state, gone.last_error) == (lease_pb2.LEASE_STATE_ABSENT, "The broker was restarted.")
        assert (await broker.acquire()).name != lease.name
