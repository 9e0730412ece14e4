"""The web console: one page that runs Turns and shows them live."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).resolve().parent.parent / "console"

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@router.get("/")
async def root() -> Response:
    """Lead people to the console."""
    return RedirectResponse("/console")


@router.get("/console")
async def console() -> Response:
    """Return the page."""
    return _file("index.html")


@router.get("/console/{name}")
async def asset(name: str) -> Response:
    """Return one of the page's files."""
    return _file(name)


def _file(name: str) -> Response:
    path = FOLDER / name
    if path.name != name or path.suffix not in _TYPES or not path.is_file():
        raise HTTPException(404)
    return FileResponse(path, media_type=_TYPES[path.suffix], headers=HEADERS)
