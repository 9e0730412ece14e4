"""With which status a call ended, for layers that only look on."""

from __future__ import annotations

import asyncio

import grpc

from services.common.interceptors.chain import Context

_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


def call_code(context: Context, failure: BaseException | None) -> grpc.StatusCode:
    """The status of a call whose behaviour returned, or raised `failure`.

    A cancelled call has no status in its context; an exception that isn't an abort is one that gRPC reports as UNKNOWN.
    """
    if isinstance(failure, asyncio.CancelledError):
        return grpc.StatusCode.CANCELLED
    if failure is not None and not isinstance(failure, grpc.aio.AbortError):
        return grpc.StatusCode.UNKNOWN
    # The context has a StatusCode after set_code, and a number before.
    code: object = context.code()
    if isinstance(code, int):
        return _BY_NUMBER.get(code, grpc.StatusCode.UNKNOWN)
    return code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.OK
