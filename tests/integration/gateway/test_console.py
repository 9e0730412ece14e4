"""The console's files are served, refer to each other, and keep to their own content security policy."""

from __future__ import annotations

import re

import pytest

from gateway.documents.event import EVENTS
from tests.integration.gateway.rig import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


async def test_page_and_everything_it_loads(shared: Gateway) -> None:
    http = shared.http
    lead = await http.get("/")
    assert (lead.status_code, lead.headers["Location"]) == (307, "/console")
    page = await http.get("/console")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script>|<style|\sstyle=|\son\w+=", page.text)
    waiting = set(re.findall(r"/console/([\w.]+)", page.text))
    seen: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        response = await http.get(f"/console/{name}")
        assert response.status_code == 200, name
        assert response.headers["Content-Type"].partition(";")[0] == TYPES[name.rpartition(".")[2]]
        seen[name] = response.text
        waiting |= set(re.findall(r'from "\./([\w.]+)"', response.text)) - set(seen)
    assert {"main.js", "view.js", "api.js", "markdown.js", "console.css"} <= set(seen)
    for name, text in seen.items():
        # Texts of models and people only ever become text nodes.
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), name


async def test_console_listens_to_events_of_the_contract(shared: Gateway) -> None:
    script = (await shared.http.get("/console/api.js")).text
    listened = set(re.findall(r'"([a-z]+(?:\.[a-z_]+)?)"', script.partition("const ENDS")[2].partition("];\n\n")[0]))
    assert len(listened) > 20
    assert listened <= set(EVENTS)
