"""Makes what the store's tests write: indexes, files, vectors."""



from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.store.pool import Database
from cocosearchd.store.records import create_index

IDENTITY = IndexIdentity((("dimension", "8"), ("model", "test")), "definitions-1", 1)
DIMENSION = 8


async def new_index(db: Database, name: str = "code", root: bytes = b"/code") -> IndexRecord:
    return await create_index(db, name, root, ("work",), DIMENSION, IDENTITY)
