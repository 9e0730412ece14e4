"""What every section of the policy shares: a strict, frozen model and a few bounded value types."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

EnvName = Annotated[str, Field(pattern=r"^([A-Z][A-Z0-9_]*)?$")]
"""The upper-case name of an environment variable that holds a value; empty when there is none."""

Port = Annotated[int, Field(ge=0, le=65_535)]
"""A TCP port; 0 asks the system for a free one."""

Seconds = Annotated[float, Field(gt=0, le=604_800)]
"""A positive duration in seconds, at most a week."""

Count = Annotated[int, Field(ge=1, le=1_000_000)]
"""A positive whole number of things."""

Bytes = Annotated[int, Field(ge=1, le=1 << 40)]
"""A positive size in bytes, at most 1 TiB."""


class Section(BaseModel):
    """A table of `fleet.toml`: values keep their TOML type, unknown keys are errors, nothing changes after loading."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
