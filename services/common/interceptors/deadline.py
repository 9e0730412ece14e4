"""The deadline layer: a handler never outlives the caller's patience."""

from __future__ import annotations

import asyncio
from typing import Any

from services.common.errors import FleetError
from services.common.interceptors.chain import Behaviour, Context, Method

UNARY_SECONDS = 900.0
"""How long a call that isn't streamed may take where its caller set no deadline."""

_FOREVER = 10 * 365 * 86_400.0


class DeadlineLayer:
    """Ends a handler at the caller's deadline, and a unary one without a deadline after `unary_seconds`."""

    def __init__(self, unary_seconds: float = UNARY_SECONDS) -> None:
        self._unary_seconds = unary_seconds

    def wrap(self, behaviour: Behaviour, method: Method) -> Behaviour:
        """A behaviour with a time limit."""
        streaming = method.request_streaming or method.response_streaming
        longest = None if streaming else self._unary_seconds

        async def call(request: Any, context: Context) -> Any:
            remaining = _remaining(context)
            limit = longest if remaining is None else remaining if longest is None else min(remaining, longest)
            if limit is None:
                return await behaviour(request, context)
            scope = asyncio.timeout(limit)
            try:
                async with scope:
                    return await behaviour(request, context)
            except TimeoutError as error:
                if scope.expired():
                    raise FleetError("DEADLINE_EXCEEDED", "The deadline passed before the answer.") from error
                raise

        return call


def _remaining(context: Context) -> float | None:
    """Seconds until the caller's deadline, or None without one, which gRPC may also write as some far future."""
    seconds: float | None = context.time_remaining()
    return None if seconds is None or seconds > _FOREVER else max(0.0, seconds)
