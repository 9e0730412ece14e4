"""The Root and Sub models: stock `dspy.LM`s, made for one invocation over connections that can be cut.

DSPy and litellm take seconds to import and to be used for the first time; `ModelFactory.warm_up` pays that.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import httpx2
from pydantic import JsonValue

from config.llm import Llm, ResolvedModel
from services.rlm.invocation.scope import InvocationScope
from services.rlm.models.provider_http import ExchangeRules, ProviderTransport, open_transport
from services.rlm.models.provider_line import ProviderLine

if TYPE_CHECKING:
    import dspy

MainRole = Literal["root", "child"]
"""Who writes the programs of an RLM."""

_NO_KEY = "none"


class RlmModels:
    """The models of one invocation; a context that ends with every connection closed.

    Attributes:
        root: asked for actions and extraction.
        sub: asked by `llm_query` and `llm_query_batched`.
        adapter: what `root` is asked through; leaving a call early closes its connection.
    """

    def __init__(
        self, root: dspy.LM, sub: dspy.LM, adapter: dspy.Adapter, transports: Sequence[ProviderTransport]
    ) -> None:
        self.root = root
        self.sub = sub
        self.adapter = adapter
        self._transports = tuple(transports)

    def settings(self, callbacks: Sequence[Any] = ()) -> dict[str, Any]:
        """Return what `dspy.context` is to be entered with around the invocation.

        Args:
            callbacks: added to those that are set for the process, such as tracing.
        """
        from services.rlm.models.lm_settings import lm_settings

        return lm_settings(self.root, adapter=self.adapter, callbacks=callbacks)

    def close(self) -> None:
        """Close every connection at once and refuse further requests; from any thread, any number of times."""
        for transport in self._transports:
            transport.close()

    def __enter__(self) -> RlmModels:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class ModelFactory:
    """Makes the models of each invocation from the policy. Safe from any thread."""

    def __init__(self, llm: Llm, env: Mapping[str, str]) -> None:
        """Read the roles' settings.

        Args:
            llm: the policy's model roles.
            env: the environment with their keys and addresses.

        Raises:
            ValueError: a variable that a role names is missing.
        """
        self._root = llm.root.resolve(env)
        self._sub = llm.sub.resolve(env)

    def open(self, scope: InvocationScope, role: MainRole = "root") -> RlmModels:
        """Return the models of `scope`; cancelling it closes their connections at once.

        Args:
            scope: the invocation.
            role: who writes the programs: the Root, or a child, which uses the Root's settings.
        """
        _prepare_litellm()
        from services.rlm.adapter.chat import FleetAdapter

        main_line, sub_line = _line(self._root, scope), _line(self._sub, scope)
        main_way = _transport(self._root, main_line, needs_text=False)
        sub_way = _transport(self._sub, sub_line, needs_text=True)
        for line in (main_line, sub_line):
            scope.on_cancel(line.cut)
        return RlmModels(
            root=_watched(self._root, role, scope, main_way),
            sub=_watched(self._sub, "sub", scope, sub_way),
            adapter=FleetAdapter(abort=main_line.drop),
            transports=(main_way, sub_way),
        )

    def describe(self) -> dict[str, JsonValue]:
        """Return both roles' settings without secrets, for the fingerprint of a resident RLM."""
        return {"root": _describe(self._root), "sub": _describe(self._sub)}

    def warm_up(self) -> None:
        """Import DSPy and litellm and use them once; takes seconds, blocks, and needs no network.

        Raises:
            dspy.LMConfigurationError: a role's settings can't be used with its model.
        """
        _prepare_litellm()
        from services.rlm.models.warming import warm_up

        _tls()
        for settings in (self._root, self._sub):
            warm_up(lambda client, settings=settings: _lm(settings, client, ()))  # type: ignore[misc]


def model_name(model: str) -> str:
    """Return the name under which litellm sends `model` to an OpenAI-compatible endpoint unchanged."""
    return model if model.startswith("openai/") else f"openai/{model}"


def _line(settings: ResolvedModel, scope: InvocationScope) -> ProviderLine:
    return ProviderLine(timeout=settings.timeout_seconds, time_left=lambda: scope.deadline - time.monotonic())


def _transport(settings: ResolvedModel, line: ProviderLine, *, needs_text: bool) -> ProviderTransport:
    secrets = (settings.api_key,) if settings.api_key else ()
    return open_transport(settings.base_url, line, ExchangeRules(settings.num_retries, secrets, needs_text), _tls())


def _watched(settings: ResolvedModel, role: str, scope: InvocationScope, transport: ProviderTransport) -> dspy.LM:
    import openai

    from services.rlm.invocation.callbacks import ModelCallback

    client = openai.OpenAI(
        base_url=settings.base_url,
        api_key=settings.api_key or _NO_KEY,
        max_retries=0,
        http_client=httpx2.Client(transport=transport),
    )
    return _lm(settings, client, (ModelCallback(scope, role, settings.model),))


def _lm(settings: ResolvedModel, client: Any, callbacks: Sequence[Any]) -> dspy.LM:
    import dspy

    options: dict[str, Any] = {}
    if settings.reasoning_effort is not None:
        options = {"reasoning_effort": settings.reasoning_effort, "allowed_openai_params": ["reasoning_effort"]}
    lm = dspy.LM(
        model_name(settings.model),
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        cache=False,
        # The transport sends again what failed in passing: litellm would also repeat what can't succeed.
        num_retries=0,
        timeout=settings.timeout_seconds,
        client=client,
        callbacks=list(callbacks),
        **options,
    )
    # DSPy reads this key when a reply was cut by its length, and leaves it out for OpenAI's reasoning models.
    lm.kwargs.setdefault("max_tokens", None)
    return lm


def _describe(settings: ResolvedModel) -> dict[str, JsonValue]:
    address = httpx2.URL(settings.base_url)
    return {
        "model": settings.model,
        "endpoint": f"{address.scheme}://{address.netloc.decode()}{address.path}",
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "timeout_seconds": settings.timeout_seconds,
        "num_retries": settings.num_retries,
        "reasoning_effort": settings.reasoning_effort,
    }


def _prepare_litellm() -> None:
    # Read when litellm is imported: without it, it tries to download a list of prices.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # Its clients over aiohttp are not used, and complain when the process ends.
    os.environ.setdefault("DISABLE_AIOHTTP_TRANSPORT", "True")
    # What these say below errors repeats the exceptions with the provider's text, or addresses with what is in them.
    for name in ("LiteLLM", "httpx2", "openai"):
        logging.getLogger(name).setLevel(logging.ERROR)


@cache
def _tls() -> ssl.SSLContext:
    """The TLS settings of every connection; reading the certificates takes 20 ms, so it is done once."""
    return httpx2.create_ssl_context()
