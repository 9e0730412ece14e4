"""Pays the first use of DSPy and litellm against a provider that exists only in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import dspy
import httpx2
import openai

from services.rlm.adapter.chat import FleetAdapter
from services.rlm.models.lm_settings import lm_settings

_ADDRESS = "http://provider.invalid/v1"
_REPLY = {
    "id": "warm",
    "object": "chat.completion",
    "created": 0,
    "model": "warm",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "[[ ## answer ## ]]\nready\n\n[[ ## completed ## ]]"},
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def warm_up(make: Callable[[Any], dspy.LM]) -> None:
    """Ask a model made by `make` once, through DSPy's own parts and through the adapter; blocks."""
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=json.dumps(_REPLY).encode()))
    with httpx2.Client(transport=transport) as http:
        lm = make(openai.OpenAI(base_url=_ADDRESS, api_key="none", max_retries=0, http_client=http))
        with dspy.context(**lm_settings(lm, adapter=FleetAdapter())):
            lm("ready?")
            asyncio.run(dspy.Predict("question -> answer").acall(question="ready?"))
