"""What every test may use."""

from __future__ import annotations

import os
import tempfile
import warnings

import pytest

# Read by litellm and dspy when they are first imported: no download of a price map, no cache in the home folder.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ.setdefault("DSPY_CACHEDIR", tempfile.mkdtemp(prefix="fleet-test-dspy-"))


@pytest.fixture(scope="session")
def warm_llm() -> None:
    """Pay the seconds of litellm's first use once; ask for it in every test that calls a model."""
    from tests.fakes.scripted_llm import ScriptedLlm

    with warnings.catch_warnings(), ScriptedLlm(["ready"]) as llm:
        warnings.simplefilter("ignore")
        import dspy

        lm = dspy.LM("openai/warm", api_base=llm.base_url, api_key="none", cache=False, num_retries=0)
        lm("ready?")
