"""How many calls are under way: halved by a burst of refusals, recovered step by step, never more than allowed."""

from __future__ import annotations

import asyncio
from random import Random

from yanami_metric.gate import Gate


def test_no_more_than_the_limit_are_inside_and_the_order_is_kept():
    gate, order, most = Gate(3), [], 0

    async def call(number):
        nonlocal most
        async with gate:
            order.append(number)
            most = max(most, gate.inside)
            await asyncio.sleep(0)

    async def run():
        await asyncio.gather(*(call(n) for n in range(20)))

    asyncio.run(run())
    assert (most, order, gate.inside) == (3, list(range(20)), 0)


def test_one_burst_halves_once_and_a_further_one_again():
    gate = Gate(16)

    async def refused(arrived, told, again):
        async with gate:
            arrived.release()
            await told.wait()
            gate.pressure()
            await again.wait()
            if again.refused:
                gate.pressure()  # the next attempt of the same call

    async def run(second):
        arrived, told, again = asyncio.Semaphore(0), asyncio.Event(), asyncio.Event()
        again.refused = second
        calls = [asyncio.ensure_future(refused(arrived, told, again)) for _ in range(8)]
        for _ in calls:
            await arrived.acquire()
        told.set()
        await asyncio.sleep(0.01)
        assert gate.limit == 8
        again.set()
        await asyncio.gather(*calls)

    asyncio.run(run(second=True))
    assert gate.limit == 4


def test_it_recovers_step_by_step_up_to_where_it_started():
    gate, limits = Gate(8), []

    async def call(*, pressed=False):
        async with gate:
            if pressed:
                gate.pressure()

    async def run():
        for _ in range(5):
            await call(pressed=True)
        assert gate.limit == 1  # never less
        for _ in range(60):
            limits.append(gate.limit)
            await call()

    asyncio.run(run())
    assert limits == sorted(limits) and limits[-1] == 8
    assert [limits.count(n) for n in range(2, 8)] == list(range(2, 8))  # as many calls as it lets in, then one more


def test_calls_that_were_inside_already_do_not_make_it_grow():
    gate = Gate(4)

    async def run():
        async with gate:
            inner = asyncio.ensure_future(old())
            await asyncio.sleep(0)
            gate.pressure()
            await inner
        assert gate.limit == 2

    async def old():
        async with gate:
            await asyncio.sleep(0.01)

    asyncio.run(run())


def test_who_gives_up_leaves_no_hole():
    rng = Random(4)
    gate, most = Gate(3), 0

    async def call():
        nonlocal most
        async with gate:
            most = max(most, gate.inside)
            if rng.random() < 0.2:
                gate.pressure()
            await asyncio.sleep(rng.random() / 500)

    async def run():
        calls = [asyncio.ensure_future(call()) for _ in range(300)]
        for one in rng.sample(calls, 100):
            await asyncio.sleep(rng.random() / 1000)
            one.cancel()
        await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)

    asyncio.run(run())
    assert (gate.inside, most) == (0, 3)


def test_pressure_from_elsewhere_counts_too():
    async def run():
        gate = Gate(4)
        gate.pressure()
        return gate.limit

    assert asyncio.run(run()) == 2
