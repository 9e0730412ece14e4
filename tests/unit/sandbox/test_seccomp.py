"""The filter program, run by a small BPF machine."""

import struct

import pytest

from services.sandbox.providers.local import seccomp

ALLOW, EPERM, ENOSYS, EAFNOSUPPORT = 0x7FFF0000, 0x50001, 0x50026, 0x50061


def _run(program: bytes, number: int, arch: int, *arguments: int) -> int:
    data = struct.pack("=IIQ6Q", number, arch, 0, *(list(arguments) + [0] * 6)[:6])
    lines = [struct.unpack("=HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]
    at = value = 0
    while True:
        code, if_true, if_false, operand = lines[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        elif code == 0x06:
            return int(operand)
        else:
            hit = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += if_true if hit else if_false


X86, ARM = 0xC000003E, 0xC00000B7


@pytest.fixture
def x86(monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return seccomp.program() or b""


@pytest.mark.parametrize(
    ("number", "arguments", "verdict"),
    [
        (0, (), ALLOW),
        (59, (), ALLOW),
        (101, (), EPERM),
        (272, (), EPERM),
        (435, (), ENOSYS),
        (56, (0x10000000,), EPERM),
        (56, (0x00000011,), ALLOW),
        (16, (1, 0x5412), EPERM),
        (16, (1, 0x5401), ALLOW),
        (41, (1,), ALLOW),
        (41, (2,), ALLOW),
        (41, (16,), ALLOW),
        (41, (40,), EAFNOSUPPORT),
        (41, (38,), EAFNOSUPPORT),
        (0x40000000, (), ENOSYS),
    ],
)
def test_verdicts(x86: bytes, number: int, arguments: tuple[int, ...], verdict: int) -> None:
    assert _run(x86, number, X86, *arguments) == verdict


def test_another_architecture_is_refused(x86: bytes) -> None:
    assert _run(x86, 0, 0x40000003) == ENOSYS


def test_the_other_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    program = seccomp.program() or b""
    assert _run(program, 117, ARM) == EPERM
    assert _run(program, 63, ARM) == ALLOW
    assert _run(program, 198, ARM, 40) == EAFNOSUPPORT
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert seccomp.program() is None
