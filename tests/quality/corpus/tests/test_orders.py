from decimal import Decimal

import pytest

from api.orders import Order, OrderLine, OrderState, cancel, pay, total_price


def order_of(*prices: str) -> Order:
    return Order(1, tuple(OrderLine("pen", 1, Decimal(price)) for price in prices))


def test_total_price_includes_tax() -> None:
    assert total_price(order_of("10.00")) == Decimal("11.90")


def test_pay_needs_the_exact_amount() -> None:
    with pytest.raises(ValueError):
        pay(order_of("10.00"), Decimal("10.00"))


def test_cancelled_orders_stay_cancelled() -> None:
    assert cancel(order_of("1.00")).state is OrderState.CANCELLED
