"""Keys of service tokens, and the data root that holds one of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from config.loader import load
from config.policy import Policy
from config.problem import ConfigError
from services.common.data_root import DataRootLock, prepare
from services.common.database import Database, database_url
from services.common.errors import FleetError
from services.common.keys import KEY_FILE, load_or_create_key, signer, verifier
from services.common.tokens import Claims

CLAIMS = Claims("acme", "s")


def pem_of(key: Any) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()


def public_pem_of(key: Any) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def local(root: Path, *overrides: str) -> Policy:
    return load(profile="local", env={}, overrides=[f"storage.data_root={root}", *overrides], components=())


def with_variables(root: Path) -> Policy:
    return local(root, "auth.signing_key_env=SIGNING", "auth.verify_keys_env=VERIFY")


def test_the_key_file_is_made_once_and_private(tmp_path: Path) -> None:
    root = tmp_path / "a" / "root"
    first = load_or_create_key(root)
    assert stat.S_IMODE((root / KEY_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert load_or_create_key(root).private_bytes_raw() == first.private_bytes_raw()
    assert [path.name for path in root.iterdir()] == [KEY_FILE]


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    load_or_create_key(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(ConfigError, match="0600"):
        load_or_create_key(tmp_path)


def test_a_key_file_that_is_no_key(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("nonsense")
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(ConfigError, match="Ed25519"):
        load_or_create_key(tmp_path)


def test_signer_and_verifier_share_the_key_file(tmp_path: Path) -> None:
    policy = local(tmp_path)
    assert verifier(policy, {}).verify(signer(policy, {}).sign(CLAIMS, 60)) == CLAIMS


def test_keys_from_variables_and_their_rotation(tmp_path: Path) -> None:
    former, current = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    policy = with_variables(tmp_path)
    env = {"SIGNING": pem_of(current), "VERIFY": public_pem_of(former) + "\n" + public_pem_of(current)}
    checks = verifier(policy, env)
    assert checks.verify(signer(policy, env).sign(CLAIMS, 60)) == CLAIMS
    assert checks.verify(signer(policy, {"SIGNING": pem_of(former).replace("\n", "\\n")}).sign(CLAIMS, 60)) == CLAIMS
    only_current = verifier(policy, {"VERIFY": public_pem_of(current)})
    with pytest.raises(FleetError):
        only_current.verify(signer(policy, {"SIGNING": pem_of(former)}).sign(CLAIMS, 60))


def test_keys_of_another_kind_are_refused(tmp_path: Path) -> None:
    policy = with_variables(tmp_path)
    other = generate_private_key(SECP256R1())
    for env in ({"SIGNING": pem_of(other)}, {"SIGNING": "text"}, {}):
        with pytest.raises(ConfigError, match=r"auth\.signing_key_env"):
            signer(policy, env)
    broken = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
    for env in ({"VERIFY": public_pem_of(other)}, {"VERIFY": "text"}, {"VERIFY": broken}, {}):
        with pytest.raises(ConfigError, match=r"auth\.verify_keys_env"):
            verifier(policy, env)


def test_a_data_root_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match=r"storage\.data_root"):
            prepare(root)


def test_one_lock_a_service(tmp_path: Path) -> None:
    with DataRootLock(tmp_path, "session") as lock:
        lock.acquire()
        other = DataRootLock(tmp_path, "session")
        with pytest.raises(ConfigError, match="another session service"):
            other.acquire()
        with DataRootLock(tmp_path, "sandbox"):
            pass
    other.acquire()
    other.release()
    other.release()


def hold(root: Path, ready: Any) -> None:
    DataRootLock(root, "session").acquire()
    ready.set()
    signal.pause()


def test_a_killed_owner_leaves_no_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    owner = context.Process(target=hold, args=(tmp_path, ready))
    owner.start()
    try:
        assert ready.wait(30)
        with pytest.raises(ConfigError):
            DataRootLock(tmp_path, "session").acquire()
        assert owner.pid is not None
        os.kill(owner.pid, signal.SIGKILL)
    finally:
        owner.kill()
        owner.join()
    with DataRootLock(tmp_path, "session"):
        pass


async def test_database_urls(tmp_path: Path) -> None:
    policy = local(tmp_path / "a b?c")
    url = database_url(policy, "session", {})
    database = Database(url)
    async with database.transaction():
        pass
    await database.close()
    assert (tmp_path / "a b?c" / "session.db").exists()
    env = {"FLEET_SESSION_DATABASE_URL": "postgresql://u:p@h/d"}
    assert database_url(policy, "session", env) == "postgresql://u:p@h/d"
    assert database_url(policy, "recursion", env).endswith("recursion.db")
