"""Which methods a path has."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter
from starlette.routing import Match
from starlette.types import Scope


def allowed_methods(routers: Iterable[APIRouter], scope: Scope) -> list[str]:
    """The methods of every route that has the path of `scope`, with HEAD beside GET, and OPTIONS."""
    found = {"OPTIONS"}
    for router in routers:
        for route in router.routes:
            if route.matches(scope)[0] is not Match.NONE:
                found |= getattr(route, "methods", None) or set()
    return sorted(found | {"HEAD"} if "GET" in found else found)
