"""The DSPy settings under which every model call of an invocation is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy


def lm_settings(lm: dspy.LM, *, adapter: dspy.Adapter | None = None, callbacks: Sequence[Any] = ()) -> dict[str, Any]:
    """Return what `dspy.context` is to be entered with around an invocation.

    Typed responses (`experimental`) carry the usage, the cost and the finish reason that events and the adapter read.
    Nothing is kept: no history and no trace, so that a resident RLM neither grows nor holds other Turns' text.

    Args:
        lm: asked where no other model is named.
        adapter: formats and parses; DSPy's own by default.
        callbacks: added to those that are set for the process, such as tracing.
    """
    return {
        "lm": lm,
        "adapter": adapter,
        "callbacks": [*dspy.settings.get("callbacks", []), *callbacks],
        "experimental": True,
        "disable_history": True,
        "trace": None,
    }
