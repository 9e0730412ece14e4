"""What every test may use."""

from __future__ import annotations

import gc
import os
import tempfile
import warnings

import pytest

# Read by litellm and dspy when they are first imported: no download of a price map, no cache in the home folder.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["GRPC_VERBOSITY"] = "ERROR"
os.environ.setdefault("DSPY_CACHEDIR", tempfile.mkdtemp(prefix="fleet-test-dspy-"))


@pytest.fixture(scope="session")
def warm_llm() -> None:
    """Pay the seconds of litellm's first use once; ask for it in every test that calls a model."""
    from config.llm import Llm, ModelRole
    from services.rlm.models.factory import ModelFactory

    role = ModelRole(
        model="warm",
        api_key_env="",
        base_url_env="UNUSED",
        base_url="http://127.0.0.1:9/v1",
        timeout_seconds=5.0,
        num_retries=0,
        cache=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ModelFactory(Llm(root=role, sub=role), {}).warm_up()
        # What litellm leaves unclosed is collected while nobody minds.
        gc.collect()
