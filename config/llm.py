"""The `[llm]` section: the Root and Sub models on an OpenAI-compatible Chat Completions endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from config.section import EnvName, Seconds, Section

OFFLINE = "offline"
"""The `base_url` that stands for the offline model's own server, at `services.offline.address`."""

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high"]


@dataclass(frozen=True)
class ResolvedModel:
    """A model role with its environment variables read: everything a client of the provider needs.

    Attributes:
        model: the model's id as configured.
        base_url: the endpoint's base, such as `https://host/v1`, without a trailing slash.
        api_key: the bearer key, empty when the endpoint needs none; never part of the repr.
        temperature: sampling temperature, or None for the provider's own.
        max_tokens: most tokens of a completion, or None for the provider's own.
        timeout_seconds: the longest one request may take.
        num_retries: retries of the HTTP client itself, beside any re-ask.
        cache: whether DSPy may answer from its cache.
        reasoning_effort: the provider's reasoning setting, or None for its own.
    """

    model: str
    base_url: str
    api_key: str = field(repr=False)
    temperature: float | None
    max_tokens: int | None
    timeout_seconds: float
    num_retries: int
    cache: bool
    reasoning_effort: str | None


class ModelRole(Section):
    """One model role; see ResolvedModel for the settings that it carries unchanged.

    `base_url`, when not empty, is used instead of the variable that `base_url_env` names; `offline` there means the
    offline model. `api_key_env` is empty for an endpoint that needs no key.
    """

    model: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^\S+$")]
    api_key_env: EnvName
    base_url_env: EnvName
    base_url: Annotated[str, Field(pattern=r"^(|offline|https?://\S+)$")]
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    timeout_seconds: Seconds
    num_retries: Annotated[int, Field(ge=0, le=5)]
    cache: bool
    reasoning_effort: ReasoningEffort | None = None

    def resolve(self, env: Mapping[str, str]) -> ResolvedModel:
        """Read the role's variables from `env`.

        Raises:
            ValueError: the offline model's address isn't known yet, or a variable is missing; the loader reports
                missing variables earlier.
        """
        return ResolvedModel(
            model=self.model,
            base_url=self._endpoint(env).rstrip("/"),
            api_key=_read(env, self.api_key_env) if self.api_key_env else "",
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            timeout_seconds=self.timeout_seconds,
            num_retries=self.num_retries,
            cache=self.cache,
            reasoning_effort=self.reasoning_effort,
        )

    def _endpoint(self, env: Mapping[str, str]) -> str:
        if self.base_url == OFFLINE:
            raise ValueError("the offline model's address is chosen when it starts; use Policy.with_addresses first")
        return self.base_url or _read(env, self.base_url_env)


class Llm(Section):
    """Both model roles."""

    root: ModelRole
    sub: ModelRole


def _read(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "").strip()
    if not value:
        raise ValueError(f"environment variable {name} is not set")
    return value
