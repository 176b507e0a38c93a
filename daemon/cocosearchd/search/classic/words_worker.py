"""The worker process that splits texts of chunks into words.

`word_splitter.WordSplitter` starts it. It opens no file and no database.
"""

import marshal

from cocosearchd.languages.identifiers import split_text
from cocosearchd.sandbox.worker_loop import Handler, run_worker


def open_handler() -> Handler:
    """Return the handler of requests."""
    return lambda body: marshal.dumps(
        [split_text(text) for text in marshal.loads(body)]  # noqa: S302 - from the daemon
    )


if __name__ == "__main__":
    run_worker(open_handler)
