"""One Session as a command uses it: connect, upload, run Turns, cancel on Ctrl-C."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio

from cli.interrupt import Interrupts
from cli.run_file import running_addresses
from cli.session_client import SessionClient
from cli.stack import Progress, on_free_ports, running_stack
from cli.view.display import Display
from config.policy import Policy
from services.common.event_json import event_type
from services.common.rpc_status import from_rpc_error

EXIT_BY_END = {"turn.completed": 0, "turn.failed": 1, "turn.timed_out": 1, "turn.cancelled": 130}
"""Exit code of a command by how its Turn ended."""


@contextlib.asynccontextmanager
async def connected(policy: Policy, server: str | None, progress: Progress) -> AsyncIterator[SessionClient]:
    """A client of `server`, else of the services that run on the same data root, else of ones started for it."""
    address = server or (running_addresses(policy.storage.root) or {}).get("session")
    if address is not None:
        progress(f"using the session service at {address}")
        async with SessionClient(address) as client:
            yield client
        return
    async with running_stack(on_free_ports(policy), gateway=False, progress=progress) as stack:
        async with SessionClient(stack.addresses["session"]) as client:
            yield client


class Conversation:
    """Turns on one Session, which is made at the first of them unless it is given."""

    def __init__(self, client: SessionClient, session: str | None) -> None:
        self._client = client
        self._session = session

    async def turn(self, text: str, files: list[Path], timeout: float | None, display: Display) -> int:
        """Run one Turn to its end; returns the exit code. Ctrl-C cancels the Turn and still shows its end.

        Raises:
            FleetError: the Turn or an upload was refused.
            KeyboardInterrupt: Ctrl-C before the Turn ran, or a second one.
        """
        try:
            return await self._turn(text, files, timeout, display)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error

    async def _turn(self, text: str, files: list[Path], timeout: float | None, display: Display) -> int:
        code = 1
        turn = ""
        async with Interrupts(lambda: self._cancel(turn, display) if turn else None):
            session = await self._named_session(text)
            attachments = await self._upload(files, display)
            async for event in self._client.run_turn(session, text, attachments, timeout):
                turn = event.turn
                display.show(event)
                code = EXIT_BY_END.get(event_type(event), code)
        return code

    async def _named_session(self, text: str) -> str:
        if self._session is None:
            self._session = await self._client.create_session(" ".join(text.split()))
        return self._session

    async def _upload(self, files: list[Path], display: Display) -> list[str]:
        attachments = []
        for path in files:
            display.progress(f"uploading {path.name}")
            attachments.append(await self._client.upload(path))
        return attachments

    async def _cancel(self, turn: str, display: Display) -> None:
        display.progress("cancelling the Turn; Ctrl-C again leaves at once")
        try:
            await self._client.cancel_turn(turn)
        except grpc.aio.AioRpcError as error:
            display.progress(f"the Turn could not be cancelled: {from_rpc_error(error).message}")
