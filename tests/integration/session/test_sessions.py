"""Sessions over gRPC, and the services without behaviour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from fleet.session.v1 import artifact_service_pb2, session_pb2, skill_service_pb2, workspace_service_pb2
from fleet.session.v1 import session_service_pb2 as pb
from google.protobuf.field_mask_pb2 import FieldMask

from tests.fakes import turn_engine
from tests.integration.session.rig import Client, Replica, refused


def update(session: session_pb2.Session, *paths: str) -> pb.UpdateSessionRequest:
    return pb.UpdateSessionRequest(session=session, update_mask=FieldMask(paths=paths))


async def test_create_and_get(client: Client) -> None:
    given = session_pb2.Session(title="A \x00 title ü", labels={"team": "red"})
    made = await client.sessions.CreateSession(pb.CreateSessionRequest(session=given))
    assert made.title == given.title
    assert dict(made.labels) == {"team": "red"}
    assert made.state == session_pb2.SESSION_STATE_ACTIVE
    assert await client.sessions.GetSession(pb.GetSessionRequest(name=made.name)) == made
    async with refused("SESSION_NOT_FOUND"):
        await client.sessions.GetSession(pb.GetSessionRequest(name="sessions/none"))
    async with refused("INVALID_ARGUMENT") as caught:
        long = session_pb2.Session(title="x" * 256)
        await client.sessions.CreateSession(pb.CreateSessionRequest(session=long))
    assert caught["error"].violations[0].field == "session.title"


async def test_update_sets_only_what_the_mask_names(client: Client) -> None:
    name = await client.session("before")
    given = session_pb2.Session(name=name, title="after", labels={"a": "b"})
    changed = await client.sessions.UpdateSession(update(given, "title"))
    assert (changed.title, dict(changed.labels)) == ("after", {})
    assert changed.update_time.ToDatetime() > changed.create_time.ToDatetime()
    changed = await client.sessions.UpdateSession(update(given, "labels"))
    assert dict(changed.labels) == {"a": "b"}
    for paths in ([], ["checkpoint_version"], ["title", "etag"]):
        async with refused("INVALID_ARGUMENT") as caught:
            await client.sessions.UpdateSession(update(given, *paths))
        assert caught["error"].violations[0].field == "update_mask"
    async with refused("INVALID_ARGUMENT"):
        await client.sessions.UpdateSession(update(session_pb2.Session(name="nonsense"), "title"))
    async with refused("INVALID_ARGUMENT"):
        await client.sessions.UpdateSession(update(session_pb2.Session(name=name), "state"))


async def test_etag_guards_an_update(client: Client) -> None:
    name = await client.session()
    read = await client.sessions.GetSession(pb.GetSessionRequest(name=name))
    first = session_pb2.Session(name=name, title="one", etag=read.etag)
    changed = await client.sessions.UpdateSession(update(first, "title"))
    assert changed.etag != read.etag
    async with refused("ETAG_MISMATCH"):
        await client.sessions.UpdateSession(update(first, "title"))


async def test_archived_sessions_take_no_turns(replica: Replica, client: Client) -> None:
    name = await client.session()
    archived = session_pb2.Session(name=name, state=session_pb2.SESSION_STATE_ARCHIVED)
    await client.sessions.UpdateSession(update(archived, "state"))
    assert replica.engine.forgotten == [name.removeprefix("sessions/")]
    async with refused("SESSION_ARCHIVED"):
        await client.create(name)
    active = session_pb2.Session(name=name, state=session_pb2.SESSION_STATE_ACTIVE)
    await client.sessions.UpdateSession(update(active, "state"))
    assert (await client.create(name)).name


async def test_a_running_turn_keeps_its_session(replica: Replica, client: Client) -> None:
    replica.engine.script = turn_engine.until_stopped
    name = await client.session()
    turn = await client.create(name)
    async with refused("TURN_IN_PROGRESS"):
        await client.sessions.DeleteSession(pb.DeleteSessionRequest(name=name))
    async with refused("TURN_IN_PROGRESS"):
        archived = session_pb2.Session(name=name, state=session_pb2.SESSION_STATE_ARCHIVED)
        await client.sessions.UpdateSession(update(archived, "state"))
    await client.sessions.CancelTurn(pb.CancelTurnRequest(name=turn.name))
    await client.sessions.DeleteSession(pb.DeleteSessionRequest(name=name))
    for call in (
        client.sessions.GetSession(pb.GetSessionRequest(name=name)),
        client.sessions.DeleteSession(pb.DeleteSessionRequest(name=name)),
    ):
        async with refused("SESSION_NOT_FOUND"):
            await call
    async with refused("TURN_NOT_FOUND"):
        await client.turn(turn.name)


async def test_list_in_pages_by_state(client: Client) -> None:
    names = [await client.session(str(i)) for i in range(5)]
    archived = session_pb2.Session(name=names[1], state=session_pb2.SESSION_STATE_ARCHIVED)
    await client.sessions.UpdateSession(update(archived, "state"))

    async def listed(state: session_pb2.SessionState.ValueType) -> list[str]:
        found, token = [], ""
        while True:
            request = pb.ListSessionsRequest(page_size=2, page_token=token, state=state)
            page = await client.sessions.ListSessions(request)
            found += [session.name for session in page.sessions]
            token = page.next_page_token
            if not token:
                return found

    assert await listed(session_pb2.SESSION_STATE_UNSPECIFIED) == [names[1], *reversed(names[2:]), names[0]]
    assert await listed(session_pb2.SESSION_STATE_ACTIVE) == [*reversed(names[2:]), names[0]]
    assert await listed(session_pb2.SESSION_STATE_ARCHIVED) == [names[1]]
    first = await client.sessions.ListSessions(pb.ListSessionsRequest(page_size=1))
    async with refused("PAGE_TOKEN_INVALID"):
        request = pb.ListSessionsRequest(page_token=first.next_page_token, state=session_pb2.SESSION_STATE_ACTIVE)
        await client.sessions.ListSessions(request)
    async with refused("INVALID_ARGUMENT"):
        await client.sessions.ListSessions(pb.ListSessionsRequest(page_size=201))


async def test_there_are_no_artifacts(client: Client) -> None:
    turn = await client.create(await client.session())
    listed = await client.artifacts.ListArtifacts(artifact_service_pb2.ListArtifactsRequest(parent=turn.name))
    assert listed == artifact_service_pb2.ListArtifactsResponse()
    async with refused("TURN_NOT_FOUND"):
        request = artifact_service_pb2.ListArtifactsRequest(parent="sessions/-/turns/none")
        await client.artifacts.ListArtifacts(request)
    async with refused("ARTIFACT_NOT_FOUND"):
        await client.artifacts.GetArtifact(artifact_service_pb2.GetArtifactRequest(name="artifacts/none"))
    async with refused("ARTIFACT_NOT_FOUND"):
        await client.artifacts.DownloadArtifact(
            artifact_service_pb2.DownloadArtifactRequest(name="artifacts/none")
        ).read()


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.skills.ListSkills(skill_service_pb2.ListSkillsRequest()),
        lambda client: client.skills.GetSkill(skill_service_pb2.GetSkillRequest(name="skills/x")),
        lambda client: client.workspace.ListFiles(workspace_service_pb2.ListFilesRequest()),
        lambda client: client.workspace.DownloadFile(workspace_service_pb2.DownloadFileRequest(path="x")).read(),
        lambda client: client.workspace.ListMemories(workspace_service_pb2.ListMemoriesRequest()),
    ],
)
async def test_methods_without_behaviour(client: Client, call: Callable[[Client], Awaitable[object]]) -> None:
    async with refused("UNIMPLEMENTED"):
        await call(client)
