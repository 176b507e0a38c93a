"""Orders: placing, paying and cancelling them."""

from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum


class OrderState(Enum):
    OPEN = "open"
    PAID = "paid"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class OrderLine:
    article: str
    quantity: int
    unit_price: Decimal


@dataclass(frozen=True)
class Order:
    number: int
    lines: tuple[OrderLine, ...]
    state: OrderState = OrderState.OPEN
    discount_percent: int = 0


def total_price(order: Order, vat: Decimal = Decimal("0.19")) -> Decimal:
    """Sum of all lines with discount and tax, rounded to cents."""
    net = sum((line.unit_price * line.quantity for line in order.lines), Decimal(0))
    net *= Decimal(100 - order.discount_percent) / 100
    return (net * (1 + vat)).quantize(Decimal("0.01"))


def pay(order: Order, amount: Decimal) -> Order:
    """Mark as paid. Raises ValueError unless the amount is exact."""
    if order.state is not OrderState.OPEN:
        raise ValueError(f"order {order.number} is {order.state.value}")
    if amount != total_price(order):
        raise ValueError("the amount does not match")
    return replace(order, state=OrderState.PAID)


def cancel(order: Order) -> Order:
    """Give up an order that nobody has paid yet."""
    if order.state is OrderState.PAID:
        raise ValueError("paid orders are refunded, not cancelled")
    return replace(order, state=OrderState.CANCELLED)
