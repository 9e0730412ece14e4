"""One real request to each model role."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from cli.doctor.check import CheckFailed
from config.llm import ModelRole

PROMPT = "Answer with one word: is water wet?"
TIMEOUT_SECONDS = 60.0


async def model(role: ModelRole, env: Mapping[str, str]) -> str:
    """The provider answers a short question."""
    resolved = role.resolve(env)
    headers = {"Authorization": f"Bearer {resolved.api_key}"} if resolved.api_key else {}
    body = {
        "model": resolved.model.removeprefix("openai/"),
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": 16,
    }
    async with httpx.AsyncClient(timeout=min(TIMEOUT_SECONDS, resolved.timeout_seconds)) as client:
        answer = await client.post(f"{resolved.base_url}/chat/completions", json=body, headers=headers)
    if answer.status_code != 200:
        raise CheckFailed(f"{resolved.model}: the provider answered HTTP {answer.status_code}")
    try:
        choices = answer.json()["choices"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckFailed(f"{resolved.model}: the answer is no chat completion") from error
    if not choices:
        raise CheckFailed(f"{resolved.model}: the completion has no choices")
    return f"{resolved.model} answered"
