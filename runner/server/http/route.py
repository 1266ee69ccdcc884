"""The route of pages and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute


class PageRoute(APIRoute):
    """What answers GET answers HEAD too, as RFC 9110 asks of a server; what serves the reply leaves its body out."""

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, methods: set[str] | list[str] | None = None, **more: Any
    ) -> None:
        asked = {*(methods or ("GET",))}
        super().__init__(path, endpoint, methods=asked | {"HEAD"} if "GET" in asked else asked, **more)
