"""Streamed output is coalesced, bounded and never splits a character."""

from __future__ import annotations

import asyncio

from services.rlm.interpreter.output_pump import OutputPump


async def test_pieces_come_together_until_the_timer_or_the_size() -> None:
    pieces: list[tuple[str, str]] = []
    told = asyncio.Event()

    def emit(stream: str, text: str) -> None:
        pieces.append((stream, text))
        told.set()

    pump = OutputPump(asyncio.get_running_loop(), emit)
    for byte in "né\n".encode():
        pump.add("stdout", bytes([byte]))
    assert pieces == []
    await asyncio.wait_for(told.wait(), 5)
    assert pieces == [("stdout", "né\n")]
    pump.add("stdout", b"x" * 5000)
    assert len(pieces) == 2
    pump.add("stdout", b"out")
    pump.add("stderr", b"err")
    pump.flush()
    assert pieces[2:] == [("stdout", "out"), ("stderr", "err")]


async def test_a_flood_is_cut() -> None:
    length = 0

    def emit(stream: str, text: str) -> None:
        nonlocal length
        length += len(text)

    pump = OutputPump(asyncio.get_running_loop(), emit)
    for _ in range(100):
        pump.add("stdout", b"x" * 10_000)
    pump.flush()
    assert length == 128 << 10
