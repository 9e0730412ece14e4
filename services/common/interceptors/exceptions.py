"""The error funnel: every exception of a handler becomes a status that says no more than it may."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc

from services.common.errors import FleetError
from services.common.interceptors.chain import Behaviour, Context, Method
from services.common.logging import get_logger
from services.common.rpc_status import DETAILS_KEY, from_rpc_error, to_status

INTERNAL_MESSAGE = "The service failed; its log has the cause under the request id."
"""All that a caller learns of an unexpected exception."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_LOG = get_logger(__name__)


class ExceptionsLayer:
    """Sends a FleetError with its details, and any other exception as INTERNAL with a fixed text and a log entry."""

    def wrap(self, behaviour: Behaviour, method: Method) -> Behaviour:
        """A behaviour that raises nothing but gRPC's own aborts and cancellation."""

        async def call(request: Any, context: Context) -> Any:
            try:
                return await behaviour(request, context)
            except grpc.aio.AbortError:
                raise
            except FleetError as error:
                await _abort(context, error)
            except grpc.aio.AioRpcError as error:
                await _abort(context, from_rpc_error(error))
            except UnicodeEncodeError:
                await _abort(context, FleetError("INVALID_ARGUMENT", "A text has characters that UTF-8 can't carry."))
            except Exception:  # noqa: BLE001 - the funnel: its text must not reach the caller
                _LOG.exception("unhandled exception")
                await _abort(context, FleetError("INTERNAL", INTERNAL_MESSAGE))

        return call


async def _abort(context: Context, error: FleetError) -> NoReturn:
    status = to_status(error)
    details = ((DETAILS_KEY, status.SerializeToString()),)
    await context.abort(_CODES[error.code], status.message, details)
