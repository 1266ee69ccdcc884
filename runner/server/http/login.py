"""The token of people: a form, or the link that the server printed, becomes a cookie."""

from __future__ import annotations

from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from runner.server.http.authentication import COOKIE, AuthMiddleware
from runner.server.http.route import PageRoute
from runner.server.service.errors import ServiceError

router = APIRouter(include_in_schema=False, route_class=PageRoute)
_MOST = 4096


def entry_of(request: Request) -> AuthMiddleware:
    """Return the gate of the server that the request came to: who may enter it."""
    found: AuthMiddleware = request.app.state.entry
    return found


def log_in(request: Request, token: str, target: str) -> Response | None:
    """Return the reply to who gave the token: a cookie, and where to go. None: it is not the token."""
    entry = entry_of(request)
    if entry.token is not None and not entry.is_token(token):
        return None
    reply = RedirectResponse(local(target), 303)
    if entry.token is not None:
        # A browser says where the page of the form is, also where a proxy does not.
        secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
        reply.headers["set-cookie"] = entry.cookie(request.app.state.root + "/", secure=secure)
    return reply


def local(target: str) -> str:
    """Return the address, if it is one of this server's pages, else the first page."""
    fine = target.startswith("/") and target[1:2] not in ("/", "\\") and target.isprintable() and target.isascii()
    return target if fine else "/"


@router.post("/login")
async def login(request: Request) -> Response:
    """Take the token of a form, or of the printed link."""
    body = await request.body()
    if len(body) > _MOST:
        raise ServiceError("too-large", "the token is too long")
    form = dict(parse_qsl(body.decode("utf-8", "replace")))
    reply = log_in(request, form.get("token", "").strip(), form.get("next", "/"))
    if reply is None:
        raise ServiceError("unauthorized", "that is not the token; `evalcell serve` printed it at its first start")
    return reply


@router.post("/logout")
async def logout(request: Request) -> Response:
    """Forget who is logged in here."""
    reply = RedirectResponse("/login", 303)
    reply.delete_cookie(COOKIE, path=request.app.state.root + "/", httponly=True, samesite="strict")
    return reply
