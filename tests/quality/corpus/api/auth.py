"""Who is asking: passwords, tokens, and what a role may do."""

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta, timezone

TOKEN_LIFETIME = timedelta(hours=12)
PBKDF2_ROUNDS = 200_000


class LoginRefused(Exception):
    """The name or the password is wrong; which of the two is not told."""


def hash_password(password: str, salt: bytes) -> bytes:
    """Derive a slow hash, so that stolen tables are of little use."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, PBKDF2_ROUNDS)


def verify_password(password: str, salt: bytes, expected: bytes) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(hash_password(password, salt), expected)


class TokenIssuer:
    """Signs session tokens and checks them."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def issue(self, user_id: int) -> str:
        expires = int((datetime.now(timezone.utc) + TOKEN_LIFETIME).timestamp())
        body = f"{user_id}.{expires}.{secrets.token_hex(8)}"
        return f"{body}.{self._sign(body)}"

    def check(self, token: str) -> int:
        """The user's id. Raises LoginRefused for forged and expired tokens."""
        body, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature, self._sign(body)):
            raise LoginRefused("forged")
        user_id, expires, _ = body.split(".")
        if int(expires) < datetime.now(timezone.utc).timestamp():
            raise LoginRefused("expired")
        return int(user_id)

    def _sign(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), "sha256").hexdigest()


def may(role: str, action: str) -> bool:
    """Whether a role is allowed to do something."""
    granted = {"reader": {"read"}, "editor": {"read", "write"}, "owner": {"read", "write", "delete"}}
    return action in granted.get(role, set())
