"""The outermost layer: gives the call its request id and its log context."""

from __future__ import annotations

import re
from typing import Any

import structlog

from services.common.ids import new_id
from services.common.interceptors.chain import Behaviour, Context, Method
from services.common.interceptors.metadata import text_value
from services.common.request_context import RequestContext, use

REQUEST_ID_KEY = "x-request-id"
"""The metadata that carries the request id from service to service."""

_VALID = re.compile(r"[!-~]{1,128}")


class RequestContextLayer:
    """Takes the caller's request id where it has a good one, else makes one."""

    def wrap(self, behaviour: Behaviour, method: Method) -> Behaviour:
        """A behaviour that runs in the call's RequestContext."""
        name = f"{method.service}/{method.name}"

        async def call(request: Any, context: Context) -> Any:
            given = text_value(context, REQUEST_ID_KEY)
            request_id = given if _VALID.fullmatch(given) else new_id()
            with (
                use(RequestContext(request_id)),
                structlog.contextvars.bound_contextvars(request_id=request_id, method=name),
            ):
                return await behaviour(request, context)

        return call
