"""The system calls that model-written code has no business making, as a BPF program for bubblewrap."""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass

_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
_CLONE_NEWUSER = 0x10000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32_BIT = 0x40000000

# Families: local, IPv4, IPv6 and route information. Others (vsock, kernel crypto, packets …) reach past namespaces.
_FAMILIES = (1, 2, 10, 16)


@dataclass(frozen=True)
class _Calls:
    """System call numbers of an architecture."""

    arch: int
    clone: int
    clone3: int
    socket: int
    ioctl: int
    denied: tuple[int, ...]


_TABLES = {
    "x86_64": _Calls(
        arch=0xC000003E, clone=56, clone3=435, socket=41, ioctl=16,
        denied=(
            101, 103, 135, 139, 153, 155, 161, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 174, 175, 176,
            179, 212, 227, 246, 248, 249, 250, 272, 298, 300, 303, 304, 308, 310, 311, 312, 313, 320, 321, 323, 425,
            426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443,
        ),
    ),
    "aarch64": _Calls(
        arch=0xC00000B7, clone=220, clone3=435, socket=198, ioctl=29,
        denied=(
            39, 40, 41, 51, 58, 60, 89, 92, 97, 104, 105, 106, 112, 116, 117, 142, 161, 162, 170, 217, 218, 219, 224,
            225, 241, 262, 264, 265, 268, 270, 271, 272, 273, 280, 282, 294, 425, 426, 427, 428, 429, 430, 431, 432,
            433, 438, 442, 443,
        ),
    ),
}  # fmt: skip


def _statement(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _deny(error: int) -> bytes:
    return _statement(_RETURN, _ERRNO | error)


def program() -> bytes | None:
    """Return the filter of this machine, or None for an architecture without one.

    Denied: tracing and other processes' memory, mounts and namespaces, kernel modules, keys, BPF, performance
    events, io_uring, and sockets of families that no namespace contains. The C library copes with a missing clone3.
    """
    table = _TABLES.get(platform.machine())
    if table is None:
        return None
    return _build(table)


def _build(calls: _Calls) -> bytes:
    lines = [
        _statement(_LOAD, _ARCH),
        _statement(_JUMP_EQ, calls.arch, 1, 0),
        _deny(_ENOSYS),
        _statement(_LOAD, _NUMBER),
        _statement(_JUMP_GE, _X32_BIT, 0, 1),
        _deny(_ENOSYS),
    ]
    for number in calls.denied:
        lines += [_statement(_JUMP_EQ, number, 0, 1), _deny(_EPERM)]
    lines += [_statement(_JUMP_EQ, calls.clone3, 0, 1), _deny(_ENOSYS)]
    return b"".join(lines + _no_user_namespace(calls) + _no_terminal_input(calls) + _known_families(calls))


def _no_user_namespace(calls: _Calls) -> list[bytes]:
    return [
        _statement(_JUMP_EQ, calls.clone, 0, 4),
        _statement(_LOAD, _ARG0),
        _statement(_JUMP_SET, _CLONE_NEWUSER, 0, 1),
        _deny(_EPERM),
        _statement(_RETURN, _ALLOW),
    ]


def _no_terminal_input(calls: _Calls) -> list[bytes]:
    return [
        _statement(_JUMP_EQ, calls.ioctl, 0, 5),
        _statement(_LOAD, _ARG1),
        _statement(_JUMP_EQ, _TIOCSTI, 1, 0),
        _statement(_JUMP_EQ, _TIOCLINUX, 0, 1),
        _deny(_EPERM),
        _statement(_RETURN, _ALLOW),
    ]


def _known_families(calls: _Calls) -> list[bytes]:
    count = len(_FAMILIES)
    return [
        _statement(_JUMP_EQ, calls.socket, 0, count + 2),
        _statement(_LOAD, _ARG0),
        *(_statement(_JUMP_EQ, family, count - index, 0) for index, family in enumerate(_FAMILIES)),
        _deny(_EAFNOSUPPORT),
        _statement(_RETURN, _ALLOW),
    ]
