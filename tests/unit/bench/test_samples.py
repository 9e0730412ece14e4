"""Ratios of samples that were taken in turns."""

from collections.abc import Callable

from bench.report import as_json, as_page
from bench.samples import Case, Interleaved, Row


def test_each_round_begins_with_another_peer_and_a_slow_one_sits_out() -> None:
    order: list[str] = []

    def measure(name: str) -> Callable[[], float]:
        def take() -> float:
            order.append(name)
            return float(len(order))

        return take

    plan = Interleaved(3)
    for name in ("a", "b"):
        plan.add(name, measure(name))
    plan.add("slow", measure("slow"), 1)
    case = plan.run("case", "ms")
    assert order == ["a", "b", "slow", "b", "a", "a", "b"]
    assert [(row.peer, len(row.samples)) for row in case.rows] == [("a", 3), ("b", 3), ("slow", 1)]


def test_a_ratio_compares_the_samples_of_one_round() -> None:
    reference, peer = Row("Fleet", (1.0, 10.0, 4.0)), Row("other", (2.0, 30.0))
    case = Case("case", "ms", (reference, peer), ("a note",))
    assert (case.ratio(reference), case.ratio(peer), case.spread(peer)) == (1.0, 2.5, (2.0, 3.0))
    assert "| other | 2.5 (2–3) | 2 |" in as_page([case])
    assert as_json([case], 1.0)["cases"][0]["peers"][1]["ratio_range"] == (2.0, 3.0)
