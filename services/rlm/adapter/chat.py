"""The adapter of every Root and child model call: reads replies as written and asks again when it can't.

Importing this module imports DSPy.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dspy
from dspy.adapters.utils import apply_output_field_defaults, parse_value
from dspy.utils.exceptions import AdapterParseError

from services.rlm.adapter.backticks import BackticksRemainError, harmless
from services.rlm.adapter.fences import CodeError, extract
from services.rlm.adapter.reask import Reasks
from services.rlm.adapter.replies import json_object, sections, without_thoughts
from services.rlm.invocation.callbacks import call_purpose, is_action
from services.rlm.invocation.scope import current_scope
from services.rlm.models.prompt_bounds import bounded, sendable

_CODE = "code"
_ENDING_SECONDS = 0.25


class ReplyError(AdapterParseError):  # type: ignore[misc]
    """A reply that can't be used.

    It says why without the reply's text, which may hold anything.

    Attributes:
        advice: what the model is told when it is asked again.
    """

    def __init__(self, signature: type[dspy.Signature], advice: str) -> None:
        super().__init__("FleetAdapter", signature, "(withheld)", message=advice)
        self.advice = advice


class FleetAdapter(dspy.ChatAdapter):  # type: ignore[misc]
    """DSPy's chat format, with bounded re-asks and code that DSPy's own fence parser can't damage.

    A reply that is one JSON object with the same fields is read too. There is no other format to fall back to, so that
    this class is the only place that asks again.
    """

    def __init__(self, abort: Callable[[], None] = lambda: None) -> None:
        """Make the adapter.

        Args:
            abort: closes the connection of the request under way; called when `acall` is cancelled or out of time.
        """
        super().__init__(use_json_adapter_fallback=False)
        self._abort = abort

    def __call__(
        self,
        lm: dspy.LM,
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        """Ask `lm` for the fields of `signature`; blocks.

        Raises:
            dspy.AdapterParseError: the replies stayed unreadable.
            dspy.LMError: the provider failed.
            FleetError: the invocation was stopped.
        """
        reasks = Reasks(current_scope())
        while True:
            request = self._request(lm, lm_kwargs, signature, demos, inputs, reasks.feedback)
            try:
                with _purpose(reasks, signature), _readable(signature):
                    response = lm(request=request)
                return self._read(signature, response)
            except Exception as error:  # noqa: BLE001 - `after` raises again what is not asked for again
                time.sleep(reasks.after(error, _advice(error)))

    async def acall(
        self,
        lm: dspy.LM,
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        """Ask `lm` for the fields of `signature`.

        Raises:
            dspy.AdapterParseError: the replies stayed unreadable.
            dspy.LMError: the provider failed.
            FleetError: the invocation was stopped.
        """
        reasks = Reasks(current_scope())
        while True:
            request = self._request(lm, lm_kwargs, signature, demos, inputs, reasks.feedback)
            try:
                with _purpose(reasks, signature), _readable(signature):
                    response = await self._ask(lm, request, reasks)
                return self._read(signature, response)
            except Exception as error:  # noqa: BLE001 - `after` raises again what is not asked for again
                await asyncio.sleep(reasks.after(error, _advice(error)))

    async def _ask(self, lm: dspy.LM, request: dspy.LMRequest, reasks: Reasks) -> dspy.LMResponse:
        """Make the request in a thread: litellm's own asynchronous calls share state between event loops.

        Leaving early closes the connection, which ends the thread.
        """
        call = asyncio.ensure_future(asyncio.to_thread(lm, request=request))
        call.add_done_callback(_retrieve)
        limit = min(float(lm.kwargs.get("timeout") or math.inf), reasks.time_left())
        try:
            await asyncio.wait({call}, timeout=None if limit == math.inf else max(limit, 0.0))
        except asyncio.CancelledError:
            await self._give_up(call)
            raise
        if not call.done():
            await self._give_up(call)
            raise dspy.LMTimeoutError("The provider did not answer in time.", model=lm.model)
        return call.result()

    async def _give_up(self, call: asyncio.Future[Any]) -> None:
        self._abort()
        # So that what the request used is counted before the invocation is settled.
        await asyncio.wait({call}, timeout=_ENDING_SECONDS)

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """Return the fields of `signature` in `completion`.

        Raises:
            ReplyError: a field is missing or can't be read as its type, or there is no program.
        """
        raw = _fields(signature, completion)
        values = {name: self._value(signature, name, text) for name, text in raw.items() if text is not None}
        values = dict(apply_output_field_defaults(signature, values))
        missing = [name for name in signature.output_fields if name not in values]
        if missing:
            raise ReplyError(signature, f"the reply has no field {', '.join(missing)}")
        return values

    def _value(self, signature: type[dspy.Signature], name: str, text: Any) -> Any:
        if name == _CODE and is_action(signature):
            return _program(signature, text)
        try:
            return parse_value(text, signature.output_fields[name].annotation)
        except Exception as error:
            raise ReplyError(signature, f"the field {name} can't be read as its type") from error

    def _request(
        self,
        lm: dspy.LM,
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
        feedback: str,
    ) -> dspy.LMRequest:
        options = dict(lm_kwargs)
        rendered = self._call_preprocess(lm, options, signature, inputs)
        messages = sendable(self.format(rendered, demos, bounded(inputs)))
        if feedback:
            messages[-1] = {**messages[-1], "content": f"{messages[-1]['content']}\n\n{feedback}"}
        return self._render_request(lm, options, messages)

    def _read(self, signature: type[dspy.Signature], response: dspy.LMResponse) -> list[dict[str, Any]]:
        return [self._read_output(signature, output) for output in response.outputs]

    def _read_output(self, signature: type[dspy.Signature], output: Any) -> dict[str, Any]:
        if output.truncated:
            raise ReplyError(signature, "the reply was cut off by the limit on its length; be briefer")
        text = without_thoughts(output.text or "")
        if not text.strip():
            raise ReplyError(signature, "the reply was empty")
        return dict(self.parse(signature, text))


def _fields(signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
    names = list(signature.output_fields)
    found: dict[str, Any] = dict(sections(completion, names, whole={_CODE} if is_action(signature) else ()))
    if found:
        return found
    values = json_object(completion)
    return {name: values[name] for name in names if name in values} if values is not None else {}


def _program(signature: type[dspy.Signature], text: Any) -> str:
    if not isinstance(text, str):
        raise ReplyError(signature, "the code field holds no text")
    try:
        return harmless(extract(text))
    except CodeError as error:
        raise ReplyError(signature, str(error)) from None
    except BackticksRemainError:
        advice = 'the code holds three back-ticks in a row in a place where they do harm; write them as "`" * 3'
        raise ReplyError(signature, advice) from None


def _advice(error: Exception) -> str:
    reason = error.advice if isinstance(error, ReplyError) else "the reply could not be read"
    return (
        f"Your last reply to this could not be used: {reason}. Answer again from the beginning, with every field under "
        "its own marker as described above and nothing else."
    )


def _retrieve(call: asyncio.Future[Any]) -> None:
    """Look at the outcome of a call that nobody waits for any more, so that it is not reported as lost."""
    if not call.cancelled():
        call.exception()


@contextmanager
def _readable(signature: type[dspy.Signature]) -> Iterator[None]:
    """Tell of a response that DSPy itself could not take, such as one without a choice, as of a bad reply."""
    try:
        yield
    except (ValueError, TypeError, LookupError) as error:
        raise ReplyError(signature, "the reply could not be read") from error


@contextmanager
def _purpose(reasks: Reasks, signature: type[dspy.Signature]) -> Iterator[None]:
    """Name the request's purpose to the callbacks while it is made."""
    token = call_purpose.set(reasks.purpose("action" if is_action(signature) else "extract"))
    try:
        yield
    finally:
        call_purpose.reset(token)
