"""The effective policy as a reader sees it."""

from __future__ import annotations

import json
import tomllib

from config.loader import load
from config.show import MASK, as_json, as_toml, effective

ENV = {"FLEET_LLM_BASE_URL": "https://provider.example/v1", "FLEET_LLM_API_KEY": "sk-provider"}


def test_variables_are_masked() -> None:
    policy = load(profile="local-provider", env=ENV)
    shown = effective(policy, ENV)
    assert shown["variables"]["FLEET_LLM_API_KEY"] == MASK
    assert shown["variables"]["FLEET_SESSION_DATABASE_URL"] == ""
    assert "sk-provider" not in as_json(policy, ENV)
    assert "sk-provider" not in as_toml(policy, ENV)


def test_credentials_in_urls_are_masked() -> None:
    overrides = ["mlflow.tracking_uri=http://user:password@tracking:5001", "llm.root.base_url=https://me:key@host/v1"]
    text = as_toml(load(profile="local", env={}, overrides=overrides), {})
    assert "password" not in text
    assert f"http://{MASK}@tracking:5001" in text
    assert f"https://{MASK}@host/v1" in text


def test_toml_and_json_say_the_same() -> None:
    policy = load(profile="local", env={}, overrides=['storage.data_root="é\\"\\\\\U0001f600"'])
    assert tomllib.loads(as_toml(policy, {})) == json.loads(as_json(policy, {}))


def test_shown_policy_loads_again() -> None:
    policy = load(profile="local", env={})
    tables = tomllib.loads(as_toml(policy, {}))
    del tables["variables"]
    assert type(policy).model_validate(tables) == policy
