"""A real server with the echo service, and channels to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from config.policy import Policy
from services.common.channel import open_channel
from services.common.server import FleetServer, build_server
from services.common.token_sources import ClaimsTokens
from services.common.tokens import Claims, TokenSigner, TokenVerifier
from tests.fakes.echo_service import EchoServicer, EchoStub


@dataclass
class Rig:
    """One server, and how to call it."""

    server: FleetServer
    port: int
    servicer: EchoServicer
    signer: TokenSigner
    channels: list[grpc.aio.Channel] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def channel(self, claims: Claims | None = None) -> grpc.aio.Channel:
        tokens = ClaimsTokens(self.signer, claims) if claims else None
        channel = open_channel(self.address, service="session", tokens=tokens)
        self.channels.append(channel)
        return channel

    def stub(self, claims: Claims | None = None) -> EchoStub:
        return EchoStub(self.channel(claims))


MakePolicy = Callable[..., Policy]


async def serve(policy: Policy) -> AsyncIterator[Rig]:
    key = Ed25519PrivateKey.generate()
    servicer = EchoServicer()
    server = build_server(policy, "session", servicer.add_to, TokenVerifier([key.public_key()]))
    rig = Rig(server, await server.start(), servicer, TokenSigner(key))
    try:
        yield rig
    finally:
        for channel in rig.channels:
            await channel.close()
        await server.stop(0)
