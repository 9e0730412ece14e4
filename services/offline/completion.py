"""Chat Completions replies: the plain body and the chunks of a stream."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from services.offline.tokens import count_prompt, count_tokens, cut_to_tokens
from services.offline.wire import MODEL_ID, ChatRequest

CHUNK_CHARACTERS = 200


@dataclass(frozen=True)
class Completion:
    """One finished reply.

    Attributes:
        id: Identifier derived from the messages and the reply, so that the same request gets the same one.
        created: Unix time in seconds.
        text: The reply.
        finish_reason: ``stop``, or ``length`` when ``max_tokens`` cut it.
        usage: Token counts by the estimate of :mod:`services.offline.tokens`.
    """

    id: str
    created: int
    text: str
    finish_reason: str
    usage: dict[str, int]

    def body(self) -> dict[str, object]:
        """The JSON body of a reply that is not streamed."""
        message = {"role": "assistant", "content": self.text}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason, "logprobs": None}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self.usage}

    def chunks(self, *, include_usage: bool) -> Iterator[bytes]:
        """The server-sent events of a streamed reply, ending with ``[DONE]``."""
        yield self._chunk({"role": "assistant", "content": ""}, None)
        for start in range(0, len(self.text), CHUNK_CHARACTERS):
            yield self._chunk({"content": self.text[start : start + CHUNK_CHARACTERS]}, None)
        yield self._chunk({}, self.finish_reason)
        if include_usage:
            yield _event({**self._head("chat.completion.chunk"), "choices": [], "usage": self.usage})
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, str], finish_reason: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return _event({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": self.created, "model": MODEL_ID}


def complete(request: ChatRequest, reply: str, created: int) -> Completion:
    """Cut a reply to what the request allows and count it."""
    for stop in request.stop:
        reply = reply.partition(stop)[0]
    text, finish_reason = reply, "stop"
    if request.max_tokens is not None and count_tokens(reply) > request.max_tokens:
        text, finish_reason = cut_to_tokens(reply, request.max_tokens), "length"
    prompt, completion = count_prompt(m.content for m in request.messages), count_tokens(text)
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return Completion(_identifier(request, text), created, text, finish_reason, usage)


def _identifier(request: ChatRequest, text: str) -> str:
    digest = hashlib.sha256()
    for part in (*(f"{m.role}\0{m.content}" for m in request.messages), text):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return f"chatcmpl-{digest.hexdigest()[:24]}"


def _event(value: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
