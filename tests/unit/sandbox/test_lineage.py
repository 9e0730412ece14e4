"""Threads inherit the invocation of the thread that starts them."""

import _thread
import queue
from collections.abc import Callable

import pytest

from services.sandbox.agent.lineage import Lineage


@pytest.fixture
def lineage(monkeypatch: pytest.MonkeyPatch) -> Lineage:
    for name in ("start_new_thread", "start_new", "start_joinable_thread"):
        if hasattr(_thread, name):
            monkeypatch.setattr(_thread, name, getattr(_thread, name))
    return Lineage()


def _start(work: Callable[[], object]) -> None:
    _thread.start_new_thread(work, ())


def test_a_thread_is_of_the_invocation_in_which_it_was_started(lineage: Lineage) -> None:
    go: queue.SimpleQueue[None] = queue.SimpleQueue()
    seen: queue.SimpleQueue[tuple[str | None, bool]] = queue.SimpleQueue()

    def look() -> None:
        seen.put((lineage.own, lineage.late))

    def late() -> None:
        go.get()
        look()
        _start(look)

    assert (lineage.own, lineage.late) == (None, False)
    lineage.enter("a")
    _start(late)
    _start(look)
    assert seen.get(timeout=5) == ("a", False)
    lineage.enter("b")
    assert (lineage.own, lineage.late) == ("b", False)
    go.put(None)
    assert [seen.get(timeout=5), seen.get(timeout=5)] == [("a", True)] * 2
    lineage.enter("a")
    assert not lineage.late


def test_arguments_and_errors_of_a_start_are_python_s(lineage: Lineage) -> None:
    given: queue.SimpleQueue[object] = queue.SimpleQueue()
    _thread.start_new_thread(lambda *args, **options: given.put((args, options)), (1, 2), {"x": 3})
    assert given.get(timeout=5) == ((1, 2), {"x": 3})
    with pytest.raises(TypeError, match="callable"):
        _thread.start_new_thread(5, ())  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        _thread.start_new_thread(print, 5)  # type: ignore[call-overload]
