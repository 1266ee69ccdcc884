"""How tests send the form of a page."""

from __future__ import annotations

import httpx


def form(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    return client.post(path, data=fields, headers={"origin": str(client.base_url).rstrip("/")})
