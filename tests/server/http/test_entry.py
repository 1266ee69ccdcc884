"""Who may enter: names, tokens, cookies, other sites."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from runner.server.http.authentication import COOKIE, LOCAL, AuthMiddleware, host_name
from runner.server.service.errors import ServiceError

TOKEN = "a-token-that-nobody-guesses"


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:8321", "localhost"),
        ("LOCALHOST", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:80", "::1"),
        ("example.com.", "example.com"),
        ("", None),
        ("a b", None),
        ("a@localhost", None),
        ("localhost/x", None),
        ("localhost:port", None),
        ("[::1", None),
        ("x" * 400, None),
    ],
)
def test_the_name_in_a_host_header(host: str, name: str | None) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize("host", ["evil.example:8321", "127.0.0.1.evil.example", "192.0.2.1", "", "localhost@evil"])
def test_a_name_that_another_site_made_lead_here_is_refused(host: str) -> None:
    with pytest.raises(ServiceError) as refused:
        AuthMiddleware().refuse_host(host)
    assert refused.value.status == 421


def test_a_server_of_every_address_takes_addresses_and_names_that_it_was_told() -> None:
    entry = AuthMiddleware(TOKEN, LOCAL | {"evalcell.example"}, addresses=True)
    for host in ("192.0.2.1:8321", "[2001:db8::1]:8321", "evalcell.example", "localhost"):
        entry.refuse_host(host)
    with pytest.raises(ServiceError):
        entry.refuse_host("evil.example")


def test_a_cookie_is_made_of_the_token_but_does_not_hold_it() -> None:
    entry = AuthMiddleware(TOKEN)
    cookie = entry.cookie(secure=True)
    assert TOKEN not in cookie
    assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    value = cookie.partition(";")[0].partition("=")[2]
    assert entry.knows_cookie(value)
    assert AuthMiddleware(TOKEN).knows_cookie(value)  # after a restart too
    assert not AuthMiddleware("another-token-altogether").knows_cookie(value)
    until, _, seal = value.partition(".")
    for other in (
        f"{int(until) + 1}.{seal}",
        f"1.{seal}",
        seal,
        "",
        ".",
        f"{until}.",
        f"²{until}.{seal}",
        f"{until}.é",
    ):
        assert not entry.knows_cookie(other)


def test_the_cookie_of_another_server_at_the_same_host_does_not_hide_ours() -> None:
    entry, other = AuthMiddleware(TOKEN), AuthMiddleware("another-token-altogether")
    ours, theirs = (one.cookie("/evalcell/", secure=True).partition(";")[0] for one in (entry, other))
    for sent in (f"{ours}; {theirs}", f"{theirs}; {ours}", ours):
        assert entry.admits("/", Headers({"cookie": sent}))
    assert not entry.admits("/", Headers({"cookie": theirs}))


def test_what_needs_a_token() -> None:
    entry = AuthMiddleware(TOKEN)
    assert not entry.admits("/", Headers({}))
    assert not entry.admits("/v1/runs", Headers({"authorization": "Bearer nonsense"}))
    assert not entry.admits("/v1/runs", Headers({"authorization": f"Basic {TOKEN}"}))
    assert not entry.admits("/login/../v1/runs", Headers({}))
    assert entry.admits("/v1/runs", Headers({"authorization": f"bearer {TOKEN}"}))
    assert entry.admits("/healthz", Headers({}))
    assert entry.admits("/static/page.css", Headers({}))
    assert AuthMiddleware().admits("/v1/runs", Headers({}))


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example", "x-evalcell": "1"},
        {"cookie": f"{COOKIE}=1.2"},
    ],
)
def test_what_a_page_of_another_site_sends_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ServiceError) as refused:
        AuthMiddleware().refuse_other_sites("POST", Headers({"host": "localhost:8321", **headers}))
    assert refused.value.status == 403
    AuthMiddleware().refuse_other_sites("GET", Headers({"host": "localhost:8321", **headers}))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost:8321", "sec-fetch-site": "same-origin"},
        {"cookie": f"{COOKIE}=1.2", "x-evalcell": "1"},
        {"cookie": f"{COOKIE}=1.2", "origin": "http://localhost:8321"},
    ],
)
def test_what_the_own_pages_and_programs_send_is_not(headers: dict[str, str]) -> None:
    AuthMiddleware().refuse_other_sites("POST", Headers({"host": "localhost:8321", **headers}))


def test_a_cookie_of_another_program_on_this_machine_shuts_nobody_out() -> None:
    entry = AuthMiddleware(TOKEN)
    own = entry.cookie(secure=False).partition(";")[0]
    for others in ('a={"x":1}; ', "a[]=1; ", "=; ", "a b=c; "):
        assert entry.admits("/v1/runs", Headers({"cookie": others + own})), others


def test_a_page_of_another_site_may_lead_here_and_take_nothing_in() -> None:
    entry = AuthMiddleware()
    for site, into in (("cross-site", "image"), ("same-site", "iframe"), ("cross-site", "script")):
        with pytest.raises(ServiceError, match="another site"):
            entry.refuse_other_sites("GET", Headers({"sec-fetch-site": site, "sec-fetch-dest": into}))
    for site, into in (("cross-site", "document"), ("same-origin", "image"), ("none", "document")):
        entry.refuse_other_sites("GET", Headers({"sec-fetch-site": site, "sec-fetch-dest": into}))
