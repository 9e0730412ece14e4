"""Channels to the sandbox broker's replicas, and per Turn the token that its children's calls carry."""

from __future__ import annotations

import grpc
from fleet.sandbox.v1 import sandbox_service_pb2_grpc

from services.common.channel import FleetChannel, open_channel
from services.common.token_sources import ClaimsTokens
from services.common.tokens import Claims, TokenSigner
from services.recursion.broker_client import BrokerClient, Stubs
from services.recursion.budget.ledger import CHILD_DEPTH

SUBJECT = "service:recursion"
"""The subject of this service's own tokens."""


class SandboxChannels:
    """One channel an address, shared by all Turns. It belongs to one event loop."""

    def __init__(
        self,
        address: str,
        signer: TokenSigner,
        credentials: grpc.ChannelCredentials | None,
        *,
        lease_seconds: float,
        renew_seconds: float,
    ) -> None:
        """Begin without a connection.

        Args:
            address: the broker as a whole.
            signer: signs the children's tokens.
            credentials: TLS, or None for plain text.
            lease_seconds: how long a lease lives without renewal.
            renew_seconds: pause between renewals.
        """
        self._address = address
        self._signer = signer
        self._credentials = credentials
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._channels: dict[str, grpc.aio.Channel] = {}

    def of(self, workspace: str, session: str, turn: str) -> BrokerClient:
        """The broker as that Turn's children may use it."""
        return BrokerClient(
            self.stubs(workspace, session, turn),
            session,
            turn,
            lease_seconds=self._lease_seconds,
            renew_seconds=self._renew_seconds,
        )

    def stubs(self, workspace: str, session: str, turn: str) -> Stubs:
        """Stubs by address whose calls carry the token of that Turn's children: depth 1."""
        tokens = ClaimsTokens(self._signer, Claims(workspace, SUBJECT, session, turn, CHILD_DEPTH))

        def stub(address: str) -> sandbox_service_pb2_grpc.SandboxServiceAsyncStub:
            return sandbox_service_pb2_grpc.SandboxServiceStub(FleetChannel(self._channel(address), tokens))

        return stub

    async def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    def _channel(self, address: str) -> grpc.aio.Channel:
        address = address or self._address
        known = self._channels.get(address)
        if known is None:
            known = open_channel(address, service="sandbox", tokens=None, credentials=self._credentials)
            self._channels[address] = known
        return known
