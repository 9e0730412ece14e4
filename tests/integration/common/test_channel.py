"""The channel: what it adds to calls, and TLS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from config.problem import ConfigError
from services.common.channel import channel_credentials, open_channel
from services.common.server import build_server
from services.common.service_config import service_config
from services.common.tokens import Claims, TokenVerifier
from tests.fakes.echo_service import EchoServicer, EchoStub, Session


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that is its own root, and its key."""
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fleet")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(hours=1))
        .not_valid_after(datetime.now(UTC) + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return folder / "cert.pem", folder / "key.pem"


async def test_tls_between_services(make_policy: Any, tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    policy = make_policy(
        f"server.tls_cert_file={certificate}", f"server.tls_key_file={key}", f"server.tls_ca_file={certificate}"
    )
    server = build_server(policy, "session", EchoServicer().add_to, TokenVerifier([]))
    address = f"127.0.0.1:{await server.start()}"
    trusted = channel_credentials(policy)
    assert trusted is not None
    async with open_channel(address, service="session", tokens=None, credentials=trusted) as channel:
        assert (await EchoStub(channel).unary(Session(title="t"), timeout=10)).title == "t"
    async with open_channel(address, service="session", tokens=None) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await EchoStub(channel).unary(Session(title="t"), timeout=10)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    await server.stop(0)


def test_tls_files_that_cannot_be_read(make_policy: Any, tmp_path: Path) -> None:
    none = tmp_path / "none.pem"
    policy = make_policy(f"server.tls_cert_file={none}", f"server.tls_key_file={none}", f"server.tls_ca_file={none}")
    with pytest.raises(ConfigError, match=r"server\.tls_ca_file"):
        channel_credentials(policy)
    assert channel_credentials(make_policy()) is None


async def test_tls_files_of_a_server_that_cannot_be_read(make_policy: Any, tmp_path: Path) -> None:
    none = tmp_path / "none.pem"
    policy = make_policy(f"server.tls_cert_file={none}", f"server.tls_key_file={none}")
    with pytest.raises(ConfigError, match=r"server\.tls_cert_file"):
        build_server(policy, "session", lambda _: None, TokenVerifier([]))


async def test_metadata_that_a_call_brings_is_kept(strict_rig: Any) -> None:
    token = strict_rig.signer.sign(Claims("other", "s"), 60)
    metadata = (("authorization", f"Bearer {token}"), ("x-request-id", "mine"))
    stub = strict_rig.stub(Claims("acme", "s"))
    response = await stub.unary(Session(title="t"), metadata=metadata)
    assert response.labels["workspace"] == "other"
    assert strict_rig.servicer.seen[0][0] == "mine"


async def test_states_of_a_channel(rig: Any) -> None:
    channel = rig.channel()
    assert channel.get_state() is grpc.ChannelConnectivity.IDLE
    await channel.channel_ready()
    assert channel.get_state() is grpc.ChannelConnectivity.READY
    await channel.close()
    assert channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN


@pytest.mark.parametrize("service", ["session", "sandbox", "recursion"])
def test_every_service_has_a_config(service: str) -> None:
    assert '"methodConfig"' in service_config(service)


async def test_retries_reach_a_server_that_starts_late(make_policy: Any) -> None:
    policy = make_policy()
    first = build_server(policy, "session", EchoServicer().add_to, TokenVerifier([]))
    port = await first.start()
    async with open_channel(f"127.0.0.1:{port}", service="session", tokens=None) as channel:
        assert (await EchoStub(channel).unary(Session(title="a"))).title == "a"
        await first.stop(0)
        again = build_server(
            make_policy(f"services.session.address=127.0.0.1:{port}"),
            "session",
            EchoServicer().add_to,
            TokenVerifier([]),
        )
        await again.start()
        assert (await EchoStub(channel).unary(Session(title="b"), timeout=10, wait_for_ready=True)).title == "b"
        await again.stop(0)
