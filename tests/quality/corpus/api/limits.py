"""Rate limiting of requests by client address: a token bucket for each."""

import time


class TokenBucket:
    """Lets `rate` requests through per second, and `burst` at once."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, burst
        self.level, self.updated = float(burst), time.monotonic()

    def take(self) -> bool:
        """False when the client must slow down."""
        now = time.monotonic()
        self.level = min(self.burst, self.level + (now - self.updated) * self.rate)
        self.updated = now
        if self.level < 1:
            return False
        self.level -= 1
        return True


class RateLimiter:
    def __init__(self, rate: float = 5.0, burst: int = 20) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: dict[str, TokenBucket] = {}

    def allow(self, address: str) -> bool:
        bucket = self._buckets.setdefault(address, TokenBucket(self._rate, self._burst))
        return bucket.take()
