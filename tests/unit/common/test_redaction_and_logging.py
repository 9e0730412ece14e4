"""No secret in a log line."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from config.loader import load
from services.common.logging import configure_logging, get_logger
from services.common.redaction import MASK, Redactor, known_secrets

SECRETS = [
    "sk-proj-abcdefghijklmnop1234",
    "dapi0123456789abcdef0123456789ab",
    "dtn_0123456789abcdef0123",
    "ghp_0123456789abcdefABCDEF",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0xyz.c2lnbmF0dXJl",
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_key_like_words_are_masked(secret: str) -> None:
    assert Redactor().redact(f"before {secret} after") == f"before {MASK} after"


def test_headers_and_urls() -> None:
    redactor = Redactor()
    assert redactor.redact("Authorization: Bearer abcdef123456") == f"Authorization: Bearer {MASK}"
    assert redactor.redact("postgresql://fleet:hunter2@db/fleet") == f"postgresql://{MASK}@db/fleet"


@pytest.mark.parametrize("text", ["risk-averse", "https://example.com/a:b", "the sk- prefix", "a bearer of news"])
def test_ordinary_words_stay(text: str) -> None:
    assert Redactor().redact(text) == text


def test_known_values_are_masked_and_found() -> None:
    redactor = Redactor(["correct horse", "short", "correct horse battery"])
    assert redactor.redact("x correct horse battery y short") == f"x {MASK} y short"
    assert redactor.has_secret("a correct horse")
    assert not redactor.has_secret("a short text")
    assert not Redactor().has_secret("sk-proj-abcdefghijklmnop1234")


def test_nested_values() -> None:
    value = {
        "a": ["Bearer abcdef123456", 3, None, True],
        "b": {"c": ("sk-abcdefghijklmnopqrst",)},
        "d": ValueError("x"),
    }
    assert Redactor().redact_value(value) == {"a": [f"Bearer {MASK}", 3, None, True], "b": {"c": [MASK]}, "d": "x"}


def test_secrets_of_a_policy() -> None:
    env = {
        "FLEET_LLM_BASE_URL": "https://provider.example/v1",
        "FLEET_LLM_API_KEY": " key-of-the-provider ",
        "FLEET_SESSION_DATABASE_URL": "postgresql://u:p@h/d",
        "OTHER": "not named",
    }
    policy = load(profile="local-provider", env=env)
    assert set(known_secrets(policy, env)) == {"key-of-the-provider", "postgresql://u:p@h/d"}


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield io.StringIO()
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_lines_are_json_with_context(stream: io.StringIO) -> None:
    configure_logging("info", Redactor(["correct horse"]), stream)
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        get_logger("fleet.test").info("said", text="correct horse", count=3)
    get_logger("fleet.test").debug("unseen")
    (line,) = lines(stream)
    assert line["event"] == "said"
    assert (line["text"], line["count"], line["request_id"]) == (MASK, 3, "r1")
    assert (line["level"], line["logger"]) == ("info", "fleet.test")


def test_exceptions_and_libraries_are_redacted(stream: io.StringIO) -> None:
    configure_logging("info", Redactor(), stream)
    try:
        raise RuntimeError("no Bearer abcdef123456")
    except RuntimeError:
        get_logger("fleet.test").exception("failed")
    logging.getLogger("some.library").warning("token %s", "sk-abcdefghijklmnopqrst")
    failed, library = lines(stream)
    assert "RuntimeError" in str(failed["exception"])
    assert "abcdef123456" not in stream.getvalue()
    assert library["event"] == f"token {MASK}"


def test_a_second_set_up_replaces_the_first(stream: io.StringIO) -> None:
    configure_logging("info", stream=io.StringIO())
    configure_logging("error", stream=stream)
    get_logger("fleet.test").warning("unseen")
    get_logger("fleet.test").error("seen")
    assert [line["event"] for line in lines(stream)] == ["seen"]
