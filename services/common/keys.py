"""Where the keys of service tokens come from: environment variables, or a key file on one machine."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from config.policy import Policy
from config.problem import ConfigError, Problem
from services.common.data_root import prepare
from services.common.ids import new_id
from services.common.tokens import TokenSigner, TokenVerifier

KEY_FILE = "signing_key.pem"
"""Name of the key file below the data root."""

_PEM = re.compile(rb"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL)


def load_or_create_key(data_root: Path) -> Ed25519PrivateKey:
    """The key of this data root, made on first use with mode 0600; processes that race get the same one.

    Raises:
        ConfigError: the file can't be read or made, is no Ed25519 key, or others may read it.
    """
    prepare(data_root)
    path = data_root / KEY_FILE
    try:
        if not path.exists():
            _create(path)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigError([Problem("storage.data_root", f"{KEY_FILE} may be read by others; set its mode to 0600")])
        pem = path.read_bytes()
    except OSError as error:
        raise ConfigError([Problem("storage.data_root", f"{KEY_FILE} can't be used: {error.strerror}")]) from error
    return _private(pem, "storage.data_root")


def signer(policy: Policy, env: Mapping[str, str] | None = None) -> TokenSigner:
    """The signer of this deployment's tokens.

    Raises:
        ConfigError: the key is missing or is no Ed25519 private key in PEM.
    """
    return TokenSigner(_signing_key(policy, os.environ if env is None else env))


def verifier(policy: Policy, env: Mapping[str, str] | None = None) -> TokenVerifier:
    """The verifier of this deployment's tokens.

    Raises:
        ConfigError: the keys are missing or are no Ed25519 public keys in PEM.
    """
    environment = os.environ if env is None else env
    name = policy.auth.verify_keys_env
    if not name:
        return TokenVerifier([_signing_key(policy, environment).public_key()])
    blocks = _PEM.findall(_value(environment, "auth.verify_keys_env", name))
    if not blocks:
        raise ConfigError([Problem("auth.verify_keys_env", f"{name} has no PEM block")])
    return TokenVerifier([_public(block, "auth.verify_keys_env") for block in blocks])


def _signing_key(policy: Policy, env: Mapping[str, str]) -> Ed25519PrivateKey:
    name = policy.auth.signing_key_env
    if not name:
        return load_or_create_key(policy.storage.root)
    return _private(_value(env, "auth.signing_key_env", name), "auth.signing_key_env")


def _value(env: Mapping[str, str], key: str, name: str) -> bytes:
    value = env.get(name, "").strip()
    if not value:
        raise ConfigError([Problem(key, f"environment variable {name} is not set")])
    return value.replace("\\n", "\n").encode()


def _create(path: Path) -> None:
    """Write a fresh key beside `path`, then link it there, so that no reader sees half a key."""
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    draft = path.with_name(f".{path.name}.{new_id()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was first; its key is the one
    finally:
        draft.unlink()


def _private(pem: bytes, key: str) -> Ed25519PrivateKey:
    try:
        loaded = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError([Problem(key, "is no Ed25519 private key in PEM")]) from error
    if not isinstance(loaded, Ed25519PrivateKey):
        raise ConfigError([Problem(key, "is no Ed25519 private key in PEM")])
    return loaded


def _public(pem: bytes, key: str) -> Ed25519PublicKey:
    try:
        loaded = serialization.load_pem_public_key(pem)
    except ValueError as error:
        raise ConfigError([Problem(key, "holds something other than Ed25519 public keys in PEM")]) from error
    if not isinstance(loaded, Ed25519PublicKey):
        raise ConfigError([Problem(key, "holds something other than Ed25519 public keys in PEM")])
    return loaded
