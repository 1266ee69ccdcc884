"""
The forked process that runs calls: one, or a batch of them.

It holds the write ends of its run's result pipe and output pipe, and nothing else of the box. Whatever a script does
to it reaches no further than the results of this run; the host checks those as it would check a stranger's.
"""

import json
import os
import random
import sys
import time

import answers
import confine
import wire

answers.hidden.add(__file__)

_decode = json.JSONDecoder().decode
_now = time.perf_counter
_urandom = os.urandom
_write = os.write
_pack = wire.RESULT.pack


def run(channel, evaluate, message, requests, results, output, boot):
    """Never returns."""
    try:
        os.setsid()
        channel.close()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        if boot["scope"]:
            confine.landlock_scope(boot["network"])
        if message["memory"]:
            confine.set_limits({"DATA": message["memory"]})
        mark = bytes.fromhex(message["mark"])
        for place, request in enumerate(requests):
            _one(place, _decode(request.decode()), evaluate, results, mark)
    finally:
        os._exit(0)


def _one(place, request, evaluate, results, mark):
    seed(request["seed"])
    began = _now()
    told = reply(answers.told(lambda: _value(evaluate, request)))
    took = _now() - began
    flush()
    if mark:
        _all(1, mark)
    _all(results, _pack(len(told), place, took) + told)


def _value(evaluate, request):
    return answers.call(evaluate, request["positional"], request["arguments"], request["result"], _awaited)


def _awaited(awaitable):
    import asyncio

    async def wait():
        return await awaitable

    return asyncio.run(wait())


def reply(told):
    """As the host reads it; what a script says in halves of surrogate pairs is its own."""
    return ("{" + told + "}").encode("utf-8", "surrogatepass")


def flush():
    """What was printed, on its way; a script may have closed or replaced the streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            continue


def seed(number):
    """Makes random numbers repeat, or without a number differ from run to run."""
    fresh = int.from_bytes(_urandom(8)) if number is None else number
    random.seed(fresh)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(fresh & 0xFFFFFFFF)
    drawn = _urandom if number is None else random.Random(number ^ 1).randbytes
    os.urandom = random._urandom = drawn


def _all(fd, data):
    left = memoryview(data)
    try:
        while left:
            left = left[_write(fd, left) :]
    except OSError:
        return  # closed by the script, which thereby has no result
