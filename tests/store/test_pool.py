"""The pool: what it checks when it opens, and what its errors say."""

from cocosearchd.store.pool import Database


async def test_ping(db: Database) -> None:
    await db.ping()


async def test_each_test_has_its_own_database_a(db: Database) -> None:
    async with db.connection() as connection:
        await connection.execute("create table mine()")


async def test_each_test_has_its_own_database_b(db: Database) -> None:
    async with db.connection() as connection:
        await connection.execute("create table mine()")
