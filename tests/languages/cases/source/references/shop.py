"""Every way to import, use, declare and type a name."""

from __future__ import annotations

import os.path
import json as encoder
from collections.abc import Iterator, Mapping as Table
from ..store import cart
from .prices import *
from typing import Literal, TypeVar

T = TypeVar("T")
RATES: Table[str, float] = {}


def load(path: str, mode: Literal["fast", "slow"] = "fast") -> "Cart":
    with open(os.path.join(path, "cart.json")) as file:
        data = encoder.load(file)
    items = [parse(item) for item in data if (size := len(item)) > 1]
    return Cart(items, default=RATES, key=lambda item: item.price)


class Basket(cart.Base, Iterator[T], metaclass=Meta):
    currency = "EUR"
    client: cart.Client
    label = currency.lower()

    def __init__(self, client: cart.Client | None, *rest, **more) -> None:
        super().__init__(client)
        self.client = client
        self.session: "Session" = cart.Session()
        self.total, self.tax = 0, rates()

    @property
    def price(self) -> float:
        global RATES
        RATES = {**RATES}
        from .discounts import discount

        return discount(self.client.session.price)

    @cart.cached(ttl=1)
    async def send(self):
        reply = await self.client.post(currency)
        for entry in reply:
            entry.check()
        try:
            pass
        except (ValueError, cart.Error) as error:
            raise Failure(f"{error.code!r} {self.name}") from error
        match reply:
            case Entry(price=cart.ZERO) | [first, *others]:
                return first.price, others

        def inner(reply: Entry):
            return reply.price

        return inner(entry), (lambda inner: inner.value), reply().body.text


def generic[K](key: K) -> K:
    naïve, größe = "é", größe_of(key); return (
        naïve
        .lower()
        .strip()
    )
