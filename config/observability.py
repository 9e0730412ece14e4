"""The `[mlflow]` section: tracing of Turns."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from config.section import Section


class Mlflow(Section):
    """Where traces go and how much they cost.

    Attributes:
        tracing_enabled: whether Turns are traced.
        tracking_uri: the tracking server.
        experiment_name: the experiment that traces belong to.
        async_logging: whether export stays off the Turn's critical path.
        trace_content_max_chars: where readable fields are cut.
        sampling_ratio: share of Turns that are traced, 0 to 1.
        queue_size: traces that wait for export before more are dropped.
        workers: threads that export.
    """

    tracing_enabled: bool
    tracking_uri: str
    experiment_name: Annotated[str, Field(min_length=1)]
    async_logging: bool
    trace_content_max_chars: Annotated[int, Field(ge=256, le=50_000)]
    sampling_ratio: Annotated[float, Field(ge=0, le=1)]
    queue_size: Annotated[int, Field(ge=1, le=100_000)]
    workers: Annotated[int, Field(ge=1, le=64)]
