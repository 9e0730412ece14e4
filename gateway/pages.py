"""Query parameters of lists."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

PageSize = Annotated[int, Query(ge=0, le=200, description="0 means 50.")]
"""How many items a page has at most."""

PageToken = Annotated[str, Query(max_length=512, description="next_page_token of the previous page.")]
"""Where a page begins."""
