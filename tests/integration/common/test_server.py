"""The server: every kind of call through every layer."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from opentelemetry import context, propagate, trace
from prometheus_client import REGISTRY

from config.problem import ConfigError
from services.common.channel import open_channel
from services.common.errors import FleetError
from services.common.interceptors.exceptions import INTERNAL_MESSAGE
from services.common.request_context import LOOPBACK, Principal, RequestContext, use
from services.common.rpc_status import from_rpc_error, translated_errors
from services.common.server import build_server
from services.common.tokens import Claims, TokenVerifier
from tests.fakes.echo_service import SERVICE, EchoStub, Session
from tests.integration.common.rig import serve

KINDS = ["unary", "server_stream", "client_stream", "bidi_stream"]


async def call(stub: EchoStub, kind: str, request: Session, **options: Any) -> list[Session]:
    """All responses of one call of that kind."""

    async def requests() -> Any:
        yield request

    function = getattr(stub, kind)
    sent = requests() if kind in ("client_stream", "bidi_stream") else request
    if kind in ("unary", "client_stream"):
        return [await function(sent, **options)]
    return [response async for response in function(sent, **options)]


async def failure(stub: EchoStub, kind: str, request: Session, **options: Any) -> FleetError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call(stub, kind, request, **options)
    return from_rpc_error(error.value)


@pytest.mark.parametrize("kind", KINDS)
async def test_answers_with_the_loopback_principal(rig: Any, kind: str) -> None:
    responses = await call(rig.stub(), kind, Session(title="hello"))
    assert {response.title for response in responses} == {"hello"}
    assert responses[0].labels["workspace"] == "local"
    assert len(responses) == (3 if kind == "server_stream" else 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_fleet_errors_arrive_whole(rig: Any, kind: str) -> None:
    error = await failure(rig.stub(), kind, Session(title="fleet"))
    assert (error.reason, error.message) == ("TURN_IN_PROGRESS", "Another Turn runs.")
    assert (dict(error.metadata), error.retry_after) == ({"turn": "turns/a"}, 1.5)


@pytest.mark.parametrize("kind", KINDS)
async def test_unexpected_exceptions_say_nothing_and_are_logged(
    rig: Any, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        with use(RequestContext("req-42")):
            await call(rig.stub(), kind, Session(title="bug"))
    assert raised.value.code() is grpc.StatusCode.INTERNAL
    assert raised.value.details() == INTERNAL_MESSAGE
    assert "secret" not in str(raised.value)
    logged = capsys.readouterr().out
    assert "req-42" in logged


async def test_a_timeout_inside_a_handler_is_not_the_deadline(rig: Any) -> None:
    error = await failure(rig.stub(), "unary", Session(title="timeout"), timeout=5)
    assert error.reason == "INTERNAL"


@pytest.mark.parametrize("kind", KINDS)
async def test_rules_of_the_contract_are_checked(rig: Any, kind: str) -> None:
    error = await failure(rig.stub(), kind, Session(title="x" * 256, labels={"ok": "v" * 256}))
    assert error.reason == "INVALID_ARGUMENT"
    fields = {violation.field: violation.description for violation in error.violations}
    assert fields == {"title": "must be at most 255 characters", 'labels["ok"]': "must be at most 255 characters"}
    assert "title" in error.message
    assert rig.servicer.seen in ([], ["closed"])


async def test_a_request_that_is_no_message(rig: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.stub().raw(b"\xff\xff\xff")
    assert from_rpc_error(raised.value).reason == "INVALID_ARGUMENT"
    bad_utf8 = b"\x12\x02\xed\xa0"
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.stub().raw(bad_utf8)
    assert from_rpc_error(raised.value).reason == "INVALID_ARGUMENT"
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        async for _ in rig.stub().raw_stream([b"\xff"].__iter__()):
            pass
    assert from_rpc_error(raised.value).reason == "INVALID_ARGUMENT"


async def test_text_without_a_utf8_form(rig: Any) -> None:
    error = await failure(rig.stub(), "unary", Session(title="surrogate"))
    assert error.reason == "INVALID_ARGUMENT"


@pytest.mark.parametrize("name", ["left_out", "left_out_stream", "unknown"])
async def test_methods_without_behaviour(rig: Any, name: str) -> None:
    outcome = getattr(rig.stub(), name)(Session())
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await (outcome.read() if name == "left_out_stream" else outcome)
    assert from_rpc_error(raised.value).reason == "UNIMPLEMENTED"


async def test_handlers_that_write_to_the_context(rig: Any) -> None:
    assert [r.title for r in await call(rig.stub(), "written_stream", Session(title="w"))] == ["w"]


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_a_call_cancels_its_handler(rig: Any, kind: str) -> None:
    task = asyncio.create_task(call(rig.stub(), kind, Session(title="hang")))
    await asyncio.wait_for(rig.servicer.entered.wait(), 5)
    task.cancel()
    await asyncio.wait_for(rig.servicer.cancelled.wait(), 5)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_stream_that_is_left_early_closes_its_generator(rig: Any) -> None:
    stream = rig.stub().server_stream(Session(title="a"))
    assert (await stream.read()).title == "a"
    stream.cancel()

    async def closed() -> None:
        while "closed" not in rig.servicer.seen:
            await asyncio.sleep(0.005)

    await asyncio.wait_for(closed(), 5)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_callers_deadline_ends_the_handler(rig: Any, kind: str) -> None:
    error = await failure(rig.stub(), kind, Session(title="hang"), timeout=0.2)
    assert error.reason == "DEADLINE_EXCEEDED"
    await asyncio.wait_for(rig.servicer.cancelled.wait(), 5)


async def test_tokens_name_the_caller(strict_rig: Any) -> None:
    claims = Claims("acme", "session-service", "sessions/a", "turns/b", 1)
    with use(RequestContext("req-7")):
        (response,) = await call(strict_rig.stub(claims), "unary", Session(title="t"))
    assert (response.labels["workspace"], response.labels["depth"]) == ("acme", "1")
    assert strict_rig.servicer.seen == [
        ("req-7", Principal("acme", "session-service", "sessions/a", "turns/b", 1)),
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_missing_token_is_refused(strict_rig: Any, kind: str) -> None:
    assert (await failure(strict_rig.stub(), kind, Session())).reason == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    "value", ["Bearer nonsense", "Basic dTpw", "Bearer ", "x", "Bearer a.b.c", "Bearer " + "x" * 6_000]
)
async def test_a_bad_token_is_refused_even_on_loopback(rig: Any, value: str) -> None:
    metadata = (("authorization", value),)
    assert (await failure(rig.stub(), "unary", Session(), metadata=metadata)).reason == "UNAUTHENTICATED"


async def test_a_good_token_counts_on_loopback(rig: Any) -> None:
    (response,) = await call(rig.stub(Claims("acme", "u")), "unary", Session(title="t"))
    assert response.labels["workspace"] == "acme"


async def test_request_ids_are_made_where_the_callers_is_bad(rig: Any) -> None:
    await call(rig.stub(), "unary", Session(), metadata=(("x-request-id", "has space"),))
    ((request_id, principal),) = rig.servicer.seen
    assert len(request_id) == 26
    assert principal == LOOPBACK


async def test_trace_context_is_passed_on(rig: Any) -> None:
    seen: list[int] = []
    answer = rig.servicer._answer

    async def spying(request: Session) -> Session:
        seen.append(trace.get_current_span().get_span_context().trace_id)
        return await answer(request)

    rig.servicer._answer = spying
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    token = context.attach(propagate.extract({"traceparent": parent}))
    try:
        for kind in KINDS:
            await call(rig.stub(), kind, Session())
    finally:
        context.detach(token)
    assert set(seen) == {0x0AF7651916CD43DD8448EB211C80319C}


async def test_calls_are_counted_by_code(rig: Any) -> None:
    def handled(method: str, kind: str, code: str) -> float:
        labels = {"grpc_type": kind, "grpc_service": SERVICE, "grpc_method": method, "grpc_code": code}
        return REGISTRY.get_sample_value("grpc_server_handled_total", labels) or 0.0

    before = [handled("Unary", "unary", "OK"), handled("BidiStream", "bidi_stream", "FAILED_PRECONDITION")]
    await call(rig.stub(), "unary", Session())
    await failure(rig.stub(), "bidi_stream", Session(title="fleet"))
    after = [handled("Unary", "unary", "OK"), handled("BidiStream", "bidi_stream", "FAILED_PRECONDITION")]
    assert after == [before[0] + 1, before[1] + 1]
    labels = {"grpc_type": "unary", "grpc_service": SERVICE, "grpc_method": "Unary"}
    assert (REGISTRY.get_sample_value("grpc_server_started_total", labels) or 0) >= 1
    assert (REGISTRY.get_sample_value("grpc_server_handling_seconds_count", labels) or 0) >= 1


async def test_health_names_follow_readiness(strict_rig: Any) -> None:
    stub = health_pb2_grpc.HealthStub(strict_rig.channel())

    async def statuses() -> dict[str, int]:
        names = ("", SERVICE, "readiness", "liveness", "startup")
        return {name: (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status for name in names}

    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    assert set((await statuses()).values()) == {serving}
    await strict_rig.server.set_ready(False)
    unready = {"": not_serving, SERVICE: not_serving, "readiness": not_serving, "liveness": serving, "startup": serving}
    assert await statuses() == unready
    watch = stub.Watch(health_pb2.HealthCheckRequest(service="readiness"))
    assert (await watch.read()).status == not_serving
    await strict_rig.server.set_ready(True)
    assert (await watch.read()).status == serving
    watch.cancel()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await stub.Check(health_pb2.HealthCheckRequest(service="nothing"))
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_server_may_start_before_it_is_ready(make_policy: Any) -> None:
    server = build_server(make_policy(), "sandbox", lambda _: None, TokenVerifier([]))
    port = await server.start(ready=False)
    async with open_channel(f"127.0.0.1:{port}", service="sandbox", tokens=None) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="startup")
        assert (await stub.Check(request)).status == health_pb2.HealthCheckResponse.NOT_SERVING
        await server.set_ready(True)
        assert (await stub.Check(request)).status == health_pb2.HealthCheckResponse.SERVING
    await server.stop(0)


async def test_reflection_lists_services(strict_rig: Any) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(strict_rig.channel())
    replies = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    names = {s.name for reply in [await replies.read()] for s in reply.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names


async def test_large_messages(rig: Any) -> None:
    data = Session(name="n" * (15 * 1024 * 1024)).SerializeToString()
    assert await rig.stub().raw(data)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.stub().raw(Session(name="n" * (17 * 1024 * 1024)).SerializeToString())
    assert from_rpc_error(raised.value).reason == "CAPACITY_EXHAUSTED"


async def test_a_port_in_use_is_one_clear_line(rig: Any, make_policy: Any) -> None:
    policy = make_policy(f"services.session.address={rig.address}")
    second = build_server(policy, "session", lambda _: None, TokenVerifier([]))
    with pytest.raises(ConfigError, match=rf"^services.session.address: can't listen on {rig.address}; .*$"):
        await second.start()
    await second.stop(0)


async def test_loopback_mode_binds_loopback_only(make_policy: Any) -> None:
    policy = make_policy()
    exposed = policy.model_copy(update={"server": policy.server.model_copy(update={"host": "0.0.0.0"})})
    with pytest.raises(ConfigError, match="loopback"):
        build_server(exposed, "session", lambda _: None, TokenVerifier([]))


async def test_stopping_lets_running_calls_end_then_cancels_them(make_policy: Any) -> None:
    async for rig in serve(make_policy()):
        task = asyncio.create_task(call(rig.stub(), "unary", Session(title="hang")))
        await asyncio.wait_for(rig.servicer.entered.wait(), 5)
        await rig.server.stop(0.1)
        assert rig.servicer.cancelled.is_set()
        with pytest.raises(grpc.aio.AioRpcError):
            await task


async def test_a_server_that_is_gone_is_unavailable_without_its_address() -> None:
    async with open_channel("127.0.0.1:9", service="session", tokens=None) as channel:
        with pytest.raises(FleetError) as raised:
            with translated_errors():
                await EchoStub(channel).unary(Session(), timeout=5)
    assert raised.value.reason == "UNAVAILABLE"
    assert "127.0.0.1" not in raised.value.message


async def test_unknown_service_config() -> None:
    with pytest.raises(FileNotFoundError):
        open_channel("127.0.0.1:9", service="nothing", tokens=None)
