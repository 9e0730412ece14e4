"""A Turn as a program with stock `dspy.RLM` would run it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import dspy

from bench.documents import document, lines
from bench.programs import ANSWERS

MakeInterpreter = Callable[[], Any]
_LIMITS = {"max_iters": 12, "max_llm_calls": 32, "max_output_chars": 6_000}


class DspyRlm:
    """Stock `dspy.RLM` with stock `dspy.LM`, on one kind of interpreter."""

    def __init__(self, base_url: str, make_interpreter: MakeInterpreter) -> None:
        """Prepare.

        Args:
            base_url: of the model's server.
            make_interpreter: gives an interpreter that is not started yet.
        """
        self._lm = dspy.LM("openai/bench", api_base=base_url, api_key="none", cache=False, num_retries=0)
        self._make = make_interpreter
        self._kept: Any = None

    def turn(self, question: str, *, reuse: bool) -> float:
        """Answer `question` and return the seconds it took.

        Args:
            question: one that `bench.programs` knows.
            reuse: whether the interpreter lives on from the Turn before.
        """
        return self._timed(question, {}, ANSWERS[question], reuse=reuse)

    def read(self, question: str, size: int, salt: int, *, reuse: bool) -> float:
        """Answer `question` about a document of `size` bytes and return the seconds it took."""
        text = document(size, salt)
        return self._timed(question, {"document": text}, str(lines(size)), reuse=reuse)

    @contextlib.contextmanager
    def crowd(self, size: int) -> Iterator[Callable[..., float]]:
        """`size` threads, each with an interpreter of its own that has been started.

        Yields:
            a function of `question` and `turns` that has every thread answer and returns the seconds of it all.
        """
        members = [_Member(self._lm, self._make) for _ in range(size)]
        try:
            _wait([member.thread.submit(member.start) for member in members])
            yield partial(_crowd_seconds, members)
        finally:
            for member in members:
                member.close()

    def children(self, question: str) -> float:
        """Answer `question` with a host tool that runs one RLM a task, side by side; returns the seconds.

        The first RLM's interpreter lives on; those of the tasks are their own.
        """
        tool = dspy.Tool(self._query_batched, name="rlm_query_batched", desc="Answer every task.")
        rlm = dspy.RLM("request -> answer", tools=[tool], interpreter_factory=self._make, **_LIMITS)
        begin = time.perf_counter()
        with dspy.context(lm=self._lm):
            found = rlm(self._reused(), request=question).answer
        seconds = time.perf_counter() - begin
        _check(question, found, ANSWERS[question])
        return seconds

    def step(self, code: str, repeats: int) -> list[float]:
        """Run `code` in a started interpreter with the host tool `ping`; returns the seconds of each time."""
        interpreter = self._make()
        interpreter.tools["ping"] = _ping
        try:
            interpreter.execute(code)
            return [_seconds(lambda: interpreter.execute(code)) for _ in range(repeats)]
        finally:
            interpreter.shutdown()

    def start(self) -> float:
        """Start an interpreter up to its first step; returns the seconds."""
        interpreter = self._make()
        try:
            return _seconds(lambda: interpreter.execute("pass"))
        finally:
            interpreter.shutdown()

    def close(self) -> None:
        """End the interpreter that lives on."""
        if self._kept is not None:
            self._kept.shutdown()
            self._kept = None

    def _timed(self, question: str, values: dict[str, str], expected: str, *, reuse: bool) -> float:
        rlm = _rlm(("request", *values), self._make)
        begin = time.perf_counter()
        with dspy.context(lm=self._lm):
            found = rlm(*([self._reused()] if reuse else []), request=question, **values).answer
        seconds = time.perf_counter() - begin
        _check(question, found, expected)
        return seconds

    def _reused(self) -> Any:
        if self._kept is None:
            self._kept = self._make()
        return self._kept

    def _query_batched(self, tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with ThreadPoolExecutor(len(tasks)) as threads:
            return list(threads.map(self._child, tasks))

    def _child(self, task: dict[str, Any]) -> dict[str, Any]:
        outputs = "answer, evidence: list[str], gaps: list[str], result_files: list[str]"
        rlm = dspy.RLM(f"task -> {outputs}", interpreter_factory=self._make, **_LIMITS)
        with dspy.context(lm=self._lm):
            return {"status": "completed", "answer": rlm(task=task["task"]).answer}


class _Member:
    """An RLM whose interpreter belongs to a thread of its own, as DSPy's does to the one that first uses it."""

    def __init__(self, lm: dspy.LM, make: MakeInterpreter) -> None:
        self.thread = ThreadPoolExecutor(1)
        self._lm = lm
        self._interpreter = make()
        self._rlm = _rlm(("request",), make)

    def start(self) -> None:
        """Start the interpreter."""
        self._interpreter.execute("pass")

    def run(self, question: str, turns: int) -> None:
        """Answer `question` a number of times."""
        with dspy.context(lm=self._lm):
            for _ in range(turns):
                found = self._rlm(self._interpreter, request=question).answer
                _check(question, found, ANSWERS[question])

    def close(self) -> None:
        """End the interpreter and the thread."""
        self.thread.submit(self._interpreter.shutdown).result()
        self.thread.shutdown()


def _rlm(inputs: tuple[str, ...], make: MakeInterpreter) -> dspy.RLM:
    return dspy.RLM(f"{', '.join(inputs)} -> answer", interpreter_factory=make, **_LIMITS)


def _crowd_seconds(members: list[_Member], question: str, turns: int) -> float:
    return _seconds(lambda: _wait([member.thread.submit(member.run, question, turns) for member in members]))


def _wait(running: Sequence[Future[None]]) -> None:
    for future in running:
        future.result()


def _ping(n: int) -> int:
    """Return `n`."""
    return n


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _check(question: str, found: str, expected: str) -> None:
    if found != expected:
        raise RuntimeError(f"{question}: {found!r} is not {expected!r}")
