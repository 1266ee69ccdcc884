"""The broker against a local judge: keys, hosts, replies, retries, the budget, many at once."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sandboxes.errors import UnsupportedConfigError
from sandboxes.judges import flight
from sandboxes.judges.addresses import is_global, read_host
from sandboxes.judges.broker import Broker, JudgeRefused
from sandboxes.judges.budget import usage_of
from sandboxes.judges.exchange import Began, JudgeReply
from sandboxes.judges.grant import Host, JudgeBudget, Judges, Price, Secret
from tests.judges.judge import KEY, VARIABLE, ask, fake_judge, grant, host_of, text_of


@asynccontextmanager
async def broker(judges: Judges) -> AsyncIterator[Broker]:
    broker = Broker(judges, {VARIABLE: KEY})
    try:
        yield broker
    finally:
        await broker.close()


async def refusal(broker: Broker, request: Any) -> JudgeRefused:
    with pytest.raises(JudgeRefused) as raised:
        await broker.exchange(request)
    return raised.value


async def test_the_key_is_sent_in_place_of_what_stands_for_it(judge: Any) -> None:
    async with broker(grant(judge)) as asked:
        reply = await asked.exchange(ask(judge))
        assert reply.status == 200
        assert "score" in text_of(reply.body)
        assert reply.usage
        assert (asked.counts.calls, asked.counts.requests) == (1, 1)
        assert asked.counts.tokens == sum(reply.usage.values())
    sent = {name.lower(): value for name, value in judge.requests[0]["headers"]}
    assert sent["authorization"] == f"Bearer {KEY}"
    assert sent["host"] == host_of(judge).removeprefix("http://")


@pytest.mark.parametrize(
    "headers",
    [
        (("X-Api-Key", f"evalcell-{VARIABLE}"),),
        (("authorization", f"bearer evalcell-{VARIABLE}"),),
    ],
)
async def test_each_header_may_carry_the_key(judge: Any, headers: tuple[tuple[str, str], ...]) -> None:
    async with broker(grant(judge)) as asked:
        assert (await asked.exchange(ask(judge, headers=headers))).status == 200


@pytest.mark.parametrize(
    "header",
    [
        ("authorization", "Bearer sk-the-scripts-own"),
        ("authorization", f"Bearer evalcell-{VARIABLE}x"),
        ("authorization", f"Bearer x evalcell-{VARIABLE}"),
        ("x-own", "anything"),
        ("cookie", f"evalcell-{VARIABLE}"),
        ("host", "example.com"),
        ("connection", "upgrade"),
        ("transfer-encoding", "chunked"),
        ("content-length", "3"),
        ("expect", "100-continue"),
        ("proxy-authorization", f"evalcell-{VARIABLE}"),
    ],
)
async def test_other_headers_are_not_handed_on(judge: Any, header: tuple[str, str]) -> None:
    async with broker(grant(judge, secrets=())) as asked:
        assert (await refusal(asked, ask(judge, headers=(header,)))).why == "key"  # as it has none
    sent = judge.requests[0]["headers"]
    names = sorted(name.lower() for name, _ in sent)
    assert names == ["accept-encoding", "content-length", "content-type", "host", "user-agent"]
    assert header[1] not in dict(sent).values()


async def test_no_key_comes_back(judge: Any) -> None:
    async with broker(grant(judge)) as asked:
        reply = await asked.exchange(ask(judge, "echo"))
        streamed = await asked.exchange(ask(judge, "echo", stream=True))
    assert reply.status == streamed.status == 200
    parts = [
        json.loads(line[6:])["choices"][0]["delta"].get("content", "")
        for line in streamed.body.decode().splitlines()
        if line.startswith("data: {")
    ]
    for text in (text_of(reply.body), "".join(parts), streamed.body.decode()):
        assert KEY not in text
    assert "Bearer ***" in text_of(reply.body)
    # Less of it than the beginning that all keys have may have been sent before the rest was known.
    assert re.search(r'"Bearer (sk)?\*\*\*"\], \["user-agent"', "".join(parts))


@pytest.mark.parametrize("host", [b"", b"a", b"ab"])
async def test_a_key_in_base64_is_masked(judge: Any, host: bytes) -> None:
    whole = base64.b64encode(host + KEY.encode() + b"rest").decode()
    async with broker(grant(judge)) as asked:
        reply = await asked.exchange(ask(judge, f"say-{whole}"))
    assert base64.b64encode(KEY.encode()).decode()[:12] not in text_of(reply.body)
    assert "***" in text_of(reply.body)


@pytest.mark.parametrize(
    "name",
    [
        *("API.openai.com", "api.openai.com.", "*.openai.com", "localhost", "127.0.0.1", "2130706433", "0x7f000001"),
        *("0177.0.0.1", "127.1", "[::1]", "::1", "bücher.example", "api.openai.com/v1", "api.openai.com:443", "a..b"),
        *("http://127.0.0.1", "http://127.0.0.1:0", "http://127.0.0.1:80/", "http://u@127.0.0.1:80", "ftp://a.b:21"),
        *(
            "http://127.1:80",
            "http://0177.0.0.1:80",
            "http://169.254.169.254:80",
            "http://[fe80::1]:80",
            "http://A.b:80",
        ),
        *("http://2130706433:80", "http://127.0.0.1:80#", "http://127.0.0.1:80?", "-a.example", "a_b.example", ""),
    ],
)
def test_hosts_are_spelt_in_one_way(name: str) -> None:
    with pytest.raises(UnsupportedConfigError):
        read_host(name)


@pytest.mark.parametrize(
    "name", ["api.openai.com", "http://127.0.0.1:8000", "https://[::1]:1", "http://localhost:11434"]
)
def test_hosts_may_be(name: str) -> None:
    assert read_host(name).local == ("://" in name)


@pytest.mark.parametrize(
    ("address", "global_"),
    [
        *((text, True) for text in ("8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808")),
        *((text, False) for text in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1")),
        *(
            (text, False)
            for text in ("::1", "fe80::1%eth0", "fd00::1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::")
        ),
        *((text, False) for text in ("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "::127.0.0.1")),
        *((text, False) for text in ("64:ff9b:1::7f00:1", "240.0.0.1", "192.168.1.1", "255.255.255.255", "ff02::1")),
    ],
)
def test_only_addresses_of_the_internet_are_connected(address: str, global_: bool) -> None:
    assert is_global(address) == global_


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::ffff:7f00:1"])
async def test_a_name_with_an_inner_address_is_refused(
    judge: Any, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    port, asked_for = judge.server_port, list[str]()

    def look_up(host: str, *args: Any, **more: Any) -> Any:
        asked_for.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", port)), (2, 1, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with broker(Judges(hosts=(Host(name="api.example.com"),))) as asked:
        error = await refusal(asked, ask(judge)._replace(host="api.example.com"))
    assert error.why == "outage"
    assert address in str(error)
    assert asked_for == ["api.example.com"]
    assert not judge.requests


async def test_a_name_is_verified_and_an_address_connected(
    judge: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A server with another name's certificate gets no request, wherever the name points."""
    pem = _certificate(tmp_path, "good.example")
    with fake_judge(cert=str(pem)) as safe:
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", safe.server_port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: here)
        names = [f"https://{name}.example:{safe.server_port}" for name in ("good", "bad")]
        hosts = tuple(Host(name=name) for name in names)
        monkeypatch.setattr(flight, "TRIES", 1)
        async with broker(Judges(hosts=hosts, secrets=(Secret(variable=VARIABLE, host=names[0]),))) as asked:
            assert (await asked.exchange(ask(judge)._replace(host=names[0]))).status == 200
            assert (await refusal(asked, ask(judge)._replace(host=names[1]))).why == "outage"
        sent = [dict(request["headers"]) for request in safe.requests]
        assert [headers["host"] for headers in sent] == [f"good.example:{safe.server_port}"]


def _certificate(folder: Any, name: str) -> Any:
    import subprocess

    pem = folder / "pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(folder / "key"), "-out", str(folder / "cert"), "-days", "2", "-subj", f"/CN={name}"]
    try:
        subprocess.run([*command, "-addext", f"subjectAltName=DNS:{name}"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl here")
    pem.write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return pem


def test_a_key_is_not_sent_in_the_clear() -> None:
    host = "http://judge.example.com:8000"
    with pytest.raises(UnsupportedConfigError, match="in the clear"):
        Broker(Judges(hosts=(Host(name=host),), secrets=(Secret(variable="A", host=host),)), {"A": KEY})


def test_a_key_goes_to_a_granted_host() -> None:
    with pytest.raises(UnsupportedConfigError, match="not granted"):
        Broker(Judges(secrets=(Secret(variable="A", host="api.example.com"),)), {"A": KEY})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": "http://127.0.0.1:1"}, "not granted"),
        ({"method": "CONNECT"}, "GET and POST"),
        ({"method": "DELETE"}, "GET and POST"),
        ({"path": "http://other.example/v1/chat/completions"}, "plain characters"),
        ({"path": "/v1/files"}, "scripts may ask"),
        ({"path": "/v1/chat/completions/"}, "scripts may ask"),
        ({"path": "/v1/files/../chat/completions"}, "in another way"),
        ({"path": "/v1/%2e%2e/chat/completions"}, "in another way"),
        ({"path": "//v1/chat/completions"}, "in another way"),
        ({"path": "/v1/chat/completions\r\nx: y"}, "plain characters"),
        ({"path": "/v1/chat/completions HTTP/1.1"}, "plain characters"),
        ({"query": "a=\n"}, "plain characters"),
        ({"query": "a" * 5000}, "too long"),
        ({"headers": (("accept", "a\r\nx: y"),)}, "does not allow"),
        ({"headers": (("accept\x00", "a"),)}, "does not allow"),
        ({"headers": (("accept", "a\x00"),)}, "does not allow"),
        ({"body": b"x" * ((8 << 20) + 1)}, "larger than 8 MB"),
    ],
)
async def test_what_may_not_be_sent(judge: Any, changes: dict[str, Any], words: str) -> None:
    async with broker(grant(judge, paths=("/v1/chat/completions", "/v1/models"))) as asked:
        error = await refusal(asked, ask(judge)._replace(**changes))
        assert words in str(error)
        assert not error.lost
    assert not judge.requests


async def test_a_path_may_leave_a_part_open(judge: Any) -> None:
    async with broker(grant(judge, paths=("/openai/deployments/*/chat/completions",))) as asked:
        path = "/openai/deployments/gpt/chat/completions"
        assert (await asked.exchange(ask(judge)._replace(path=path))).status == 200
        assert "may ask" in str(await refusal(asked, ask(judge)._replace(path=path.replace("gpt", "a/b"))))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("redirect-169.254.169.254", "307"),
        ("smuggle", "two lengths"),
        ("huge-34", "32 MB"),
    ],
)
async def test_replies_that_are_not_handed_on(judge: Any, model: str, words: str) -> None:
    async with broker(grant(judge)) as asked:
        error = await refusal(asked, ask(judge, model))
        assert (error.why, error.lost) == ("reply", True)
        assert words in str(error)
    assert len(judge.requests) == 1


async def test_a_large_reply_is_handed_on(judge: Any) -> None:
    async with broker(grant(judge)) as asked:
        assert len((await asked.exchange(ask(judge, "huge-20"))).body) > 20_000_000


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_errors_of_the_request_are_the_scripts(judge: Any, status: int) -> None:
    async with broker(grant(judge)) as asked:
        assert (await asked.exchange(ask(judge, f"error-{status}"))).status == status
    assert len(judge.requests) == 1


async def test_a_refused_key_loses_the_row(judge: Any) -> None:
    async with broker(grant(judge)) as asked:
        asked._keys[host_of(judge)] = {f"evalcell-{VARIABLE}": "sk-another-key"}
        error = await refusal(asked, ask(judge))
    assert (error.why, error.lost) == ("key", True)
    assert "sk-a" not in str(error)


@pytest.mark.parametrize(
    "model", ["flaky-429-2+wait-0", "flaky-503-1+wait-0", "flaky-529-1+wait-0", "flaky-408+wait-0"]
)
async def test_what_passes_is_tried_again(judge: Any, model: str) -> None:
    async with broker(grant(judge)) as asked:
        reply = await asked.exchange(ask(judge, model))
    assert reply.status == 200
    assert reply.tries == len(judge.requests) == (3 if "-2" in model else 2)


async def test_the_judge_says_when(judge: Any) -> None:
    async with broker(grant(judge)) as asked:
        await asked.exchange(ask(judge, "flaky-429-1+wait-1"))
    first, second = (request["time"] for request in judge.requests)
    assert second - first >= 1


@pytest.mark.parametrize("model", ["error-500+wait-0", "cut", "garbage"])
async def test_a_judge_that_is_down_loses_the_row(judge: Any, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "TRIES", 2)
    monkeypatch.setattr(flight, "_FIRST_PAUSE", 0.01)
    async with broker(grant(judge)) as asked:
        if model == "garbage":  # 200, and no JSON: the script's to read
            assert (await asked.exchange(ask(judge, model))).body.endswith(b"\x00\xff")
            return
        error = await refusal(asked, ask(judge, model))
        assert (error.why, asked.counts.failed, asked.counts.in_flight) == ("outage", 1, 0)
    assert len(judge.requests) == 2


async def test_a_judge_that_never_answers(judge: Any) -> None:
    async with broker(grant(judge, judge_timeout=0.5)) as asked:
        error = await refusal(asked, ask(judge, "hang"))
        assert error.why == "outage"
        assert asked.counts.in_flight == 0


async def test_what_is_cancelled_ends_at_the_judge(judge: Any) -> None:
    async with broker(grant(judge, budget=JudgeBudget(requests=5))) as asked:
        task = asyncio.ensure_future(asked.exchange(ask(judge, "hang")))
        while not judge.stats()["in_flight"]:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while judge.stats()["in_flight"] or asked.counts.in_flight:
            await asyncio.sleep(0.01)
        assert asked.counts.requests == 1  # it may be billed


async def test_closing_ends_what_is_in_flight(judge: Any) -> None:
    threads = threading.active_count()
    asked = Broker(grant(judge), {VARIABLE: KEY})
    task = asyncio.ensure_future(asked.exchange(ask(judge, "hang")))
    while not judge.stats()["in_flight"]:
        await asyncio.sleep(0.01)
    await asked.close()
    await asked.close()
    with pytest.raises((asyncio.CancelledError, JudgeRefused)):
        await task
    assert (await refusal(asked, ask(judge))).why == "closed"
    while judge.stats()["in_flight"]:
        await asyncio.sleep(0.01)
    assert threading.active_count() <= threads + 1  # the judge's own


async def test_the_budget_of_requests_holds(judge: Any) -> None:
    async with broker(grant(judge, budget=JudgeBudget(requests=100), in_flight=256)) as asked:
        replies = await asyncio.gather(
            *(asked.exchange(ask(judge, "slow-0.05", str(number))) for number in range(256)), return_exceptions=True
        )
        refused = [error for error in replies if isinstance(error, JudgeRefused)]
        assert len(refused) == asked.counts.refused == 156
        assert {error.why for error in refused} == {"budget"}
    assert len(judge.requests) == 100


async def test_retries_count(judge: Any) -> None:
    async with broker(grant(judge, budget=JudgeBudget(requests=2))) as asked:
        assert (await refusal(asked, ask(judge, "error-503+wait-0"))).why == "budget"
    assert len(judge.requests) == 2


async def test_the_budget_of_tokens_holds(judge: Any) -> None:
    async with broker(grant(judge, budget=JudgeBudget(tokens=200))) as asked:
        assert (await refusal(asked, ask(judge))).why == "budget"  # it could use more
        replies = await asyncio.gather(
            *(asked.exchange(ask(judge, content=str(number), max_tokens=50)) for number in range(20)),
            return_exceptions=True,
        )
        assert 0 < sum(isinstance(reply, JudgeReply) for reply in replies) < 20
        assert asked.counts.tokens <= 200


async def test_what_is_not_said_is_counted_as_reserved(judge: Any) -> None:
    async with broker(grant(judge, budget=JudgeBudget(tokens=1000))) as asked:
        await asked.exchange(ask(judge, "nousage", max_tokens=50))
        assert asked.counts.tokens > 50
        assert asked.counts.estimated == 1


async def test_money_needs_a_price(judge: Any) -> None:
    async with broker(grant(judge, budget=JudgeBudget(usd=1))) as asked:
        assert "no price" in str(await refusal(asked, ask(judge)))
    price = {"judge": Price(input=1_000, output=10_000)}
    async with broker(grant(judge, budget=JudgeBudget(usd=1), prices=price)) as asked:
        assert "US dollars" in str(await refusal(asked, ask(judge, max_tokens=200)))
        reply = await asked.exchange(ask(judge, max_tokens=20))
        assert reply.usage
        cost = (reply.usage["input"] * 1_000 + reply.usage["output"] * 10_000) / 1_000_000
        assert asked.counts.usd == pytest.approx(cost)


async def test_no_number_is_too_large_for_the_budget(judge: Any) -> None:
    price = {"judge": Price(input=1, output=1)}
    async with broker(grant(judge, budget=JudgeBudget(usd=1, tokens=1000), prices=price)) as asked:
        cases: list[dict[str, Any]] = [{"max_tokens": 10**400}, {"max_tokens": 2, "n": 10**400}]
        for bounds in cases:
            assert (await refusal(asked, ask(judge, **bounds))).why == "budget"
    assert usage_of({"usage": {"prompt_tokens": 10**400}}) == {"input": 10**15}


async def test_no_more_at_once_than_are_allowed(judge: Any) -> None:
    async with broker(grant(judge, in_flight=4)) as asked:
        await asyncio.gather(*(asked.exchange(ask(judge, "slow-0.05", str(number))) for number in range(16)))
        assert asked.counts.in_flight == asked.counts.waiting == 0
    assert judge.stats()["most_in_flight"] == 4


async def test_a_full_judge_is_asked_less_at_once(judge: Any) -> None:
    async with broker(grant(judge, in_flight=16)) as asked:
        many = [asked.exchange(ask(judge, "flaky-429-1+wait-0", str(number))) for number in range(16)]
        assert {reply.status for reply in await asyncio.gather(*many)} == {200}
        assert asked._upstream
        assert asked._upstream.room.allowed < 16
        for number in range(400):
            await asked.exchange(ask(judge, content=str(number)))
        assert asked._upstream.room.allowed == 16


async def test_a_stream_is_handed_on_as_it_comes(judge: Any) -> None:
    async with broker(grant(judge)) as asked:

        async def follow() -> list[Any]:
            loop, seen = asyncio.get_running_loop(), list[Any]()
            async for part in asked.parts(ask(judge, "drip-0.1", stream=True)):
                seen.append((loop.time(), part))
            return seen

        seen = await asked.on_loop(follow())
    assert isinstance(seen[0][1], Began)
    assert isinstance(seen[-1][1], JudgeReply)
    pieces = [part for _, part in seen[1:-1]]
    assert b"".join(pieces) == seen[-1][1].body
    assert seen[-2][0] - seen[1][0] > 0.2
    assert pieces[-1].endswith(b"data: [DONE]\n\n")


async def test_loops_of_several_threads_may_ask(judge: Any) -> None:
    async with broker(grant(judge)) as asked:

        def work(number: int) -> int:
            return asyncio.run(asked.exchange(ask(judge, content=str(number)))).status

        assert await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(4))) == [200] * 4


async def test_a_proxy_of_the_users_is_not_asked(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would connect in the broker's place, and nobody would check the address."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{trap.getsockname()[1]}")
            monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{trap.getsockname()[1]}")
        async with broker(grant(judge)) as asked:
            assert (await asked.exchange(ask(judge))).status == 200
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert len(judge.requests) == 1
