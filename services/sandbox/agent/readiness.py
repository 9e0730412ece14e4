"""Waiting for whatever happens next."""

from __future__ import annotations

import select

from .host import HostChannel
from .slot import WorkerSlot


def wait(channel: HostChannel, slot: WorkerSlot, child_signal: int, timeout_ms: float, *, outputs: bool) -> set[int]:
    """Return the descriptors that can be read, or were closed at the other end.

    Args:
        channel: To the host.
        slot: The worker.
        child_signal: Becomes readable when a process ended.
        timeout_ms: How long to wait at most.
        outputs: Whether to listen to what the worker prints; otherwise it waits in its pipes, and then so does the
            worker.
    """
    poll = select.poll()
    poll.register(child_signal, select.POLLIN)
    poll.register(slot.process.control, select.POLLIN | (select.POLLOUT if slot.has_pending else 0))
    if channel.reader == channel.writer:
        poll.register(channel.reader, select.POLLIN | (select.POLLOUT if channel.has_pending else 0))
    else:
        poll.register(channel.reader, select.POLLIN)
        if channel.has_pending:
            poll.register(channel.writer, select.POLLOUT)
    if outputs:
        for descriptor in slot.open_outputs():
            poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, event in poll.poll(timeout_ms) if event & ~select.POLLOUT}
