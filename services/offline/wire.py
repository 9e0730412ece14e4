"""The Chat Completions request: what is accepted, and what is refused with which words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.offline.problems import Problem, invalid
from services.offline.tokens import count_prompt

MODEL_ID = "fleet-offline"
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_MESSAGES = 256
MAX_PROMPT_TOKENS = 500_000
MAX_COMPLETION_TOKENS = 1_000_000
MAX_STOPS = 4


@dataclass(frozen=True)
class Message:
    """One chat message; ``content`` is its text parts joined by line ends."""

    role: str
    content: str


@dataclass(frozen=True)
class ChatRequest:
    """A checked request.

    Attributes:
        messages: The conversation, oldest first, never empty.
        stream: Whether the reply is sent as server-sent events.
        include_usage: Whether a stream ends with a chunk that carries the usage.
        max_tokens: Upper limit of the reply in tokens, or None.
        stop: Texts before which the reply is cut.
    """

    messages: tuple[Message, ...]
    stream: bool
    include_usage: bool
    max_tokens: int | None
    stop: tuple[str, ...]


def find_problem(body: object) -> Problem | None:
    """The first reason to refuse a decoded JSON body, or None when it can be answered."""
    if not isinstance(body, dict):
        return invalid(None, "The request body must be a JSON object.", "invalid_json")
    return _model_problem(body) or _messages_problem(body) or _option_problem(body) or _unsupported_problem(body)


def read_request(body: Mapping[str, Any]) -> ChatRequest:
    """Read a body for which :func:`find_problem` found nothing."""
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    stop = body.get("stop") or ()
    return ChatRequest(
        messages=tuple(Message(m["role"], _text(m.get("content"))) for m in body["messages"]),
        stream=bool(body.get("stream")),
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        max_tokens=limit,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
    )


def _model_problem(body: Mapping[str, Any]) -> Problem | None:
    model = body.get("model")
    if not isinstance(model, str) or not model.strip():
        return invalid("model", f"You must name a model. This server has one: '{MODEL_ID}'.", "missing_model")
    if model != MODEL_ID:
        shown = model[:80]
        message = f"The model '{shown}' does not exist here. This server has one: '{MODEL_ID}'."
        return Problem(404, message, "model", "model_not_found")
    return None


def _messages_problem(body: Mapping[str, Any]) -> Problem | None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return invalid("messages", "'messages' must be a list with at least one message.", "empty_messages")
    if len(messages) > MAX_MESSAGES:
        return invalid("messages", f"'messages' holds {len(messages)} messages; at most {MAX_MESSAGES} are read.")
    problems = (_message_problem(f"messages[{index}]", message) for index, message in enumerate(messages))
    first = next((problem for problem in problems if problem), None)
    if first is None and not any(_text(message.get("content")).strip() for message in messages):
        return invalid("messages", "Every message is blank; at least one must hold text.", "empty_messages")
    return first or _size_problem(messages)


def _size_problem(messages: list[dict[str, Any]]) -> Problem | None:
    tokens = count_prompt(_text(message.get("content")) for message in messages)
    if tokens <= MAX_PROMPT_TOKENS:
        return None
    message = f"The messages hold {tokens} tokens; the context length is {MAX_PROMPT_TOKENS} tokens."
    return invalid("messages", message, "context_length_exceeded")


def _message_problem(path: str, message: object) -> Problem | None:
    if not isinstance(message, dict):
        return invalid(path, "A message must be an object with 'role' and 'content'.")
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        return invalid(f"{path}.role", f"Unknown role; one of {', '.join(sorted(ROLES))} is needed.", "invalid_role")
    content = message.get("content")
    if content is None and role == "assistant":
        return None
    if isinstance(content, str):
        return None
    if not isinstance(content, list) or not content:
        return invalid(f"{path}.content", "'content' must be a text or a list of text parts.")
    for index, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            return invalid(f"{path}.content[{index}]", "Only parts of type 'text' can be read.", "unsupported_value")
    return None


def _option_problem(body: Mapping[str, Any]) -> Problem | None:
    if not isinstance(body.get("stream", False), bool | None):
        return invalid("stream", "'stream' must be true or false.")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        return invalid("stream_options", "'stream_options' must be an object.")
    for name in ("max_tokens", "max_completion_tokens"):
        limit = body.get(name)
        whole = isinstance(limit, int) and not isinstance(limit, bool)
        if limit is not None and not (whole and 1 <= limit <= MAX_COMPLETION_TOKENS):
            return invalid(name, f"'{name}' must be a whole number from 1 to {MAX_COMPLETION_TOKENS}.")
    return _stop_problem(body.get("stop"))


def _stop_problem(stop: object) -> Problem | None:
    if stop is None or (isinstance(stop, str) and stop):
        return None
    texts = isinstance(stop, list) and len(stop) <= MAX_STOPS and all(isinstance(s, str) and s for s in stop)
    return None if texts else invalid("stop", f"'stop' must be a text or a list of at most {MAX_STOPS} texts.")


def _unsupported_problem(body: Mapping[str, Any]) -> Problem | None:
    if body.get("n", 1) not in (1, None):
        return invalid("n", "Only one choice is given: the reply depends on the messages alone.", "unsupported_value")
    for name in ("tools", "functions", "logprobs", "audio"):
        if body.get(name):
            return invalid(name, f"'{name}' is not supported by the offline model.", "unsupported_value")
    shape = body.get("response_format")
    if shape is not None and not (isinstance(shape, dict) and shape.get("type") == "text"):
        return invalid("response_format", "Only the response format 'text' is supported.", "unsupported_value")
    return None


def _text(content: object) -> str:
    """The text of a message's content; a lone surrogate, which no client could be sent back, becomes U+FFFD."""
    text = "\n".join(part["text"] for part in content) if isinstance(content, list) else content or ""
    return str(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
