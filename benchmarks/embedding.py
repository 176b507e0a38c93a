"""Speed of the built-in model: chunks per CPU second, and CPU milliseconds of a question.

    python -m benchmarks.embedding DIRECTORY [DIRECTORY ...]

Files below the directories are cut as when indexing; their chunks are embedded with their header
lines, file by file. One thread. The first run is reported by itself: it is the one that meets each
word for the first time.
"""

import argparse
import asyncio
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import machine, spread
from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.factory import open_embedder
from training.ranking.signals import read

RUNS = 5
QUESTIONS = (
    "where is the retry back-off of the connection pool decided",
    "parse json config file",
    "how are headers of a response normalised before they are compared",
    "HTTPServer",
)


async def main() -> None:
    """Embed, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("roots", type=Path, nargs="+")
    arguments = parser.parse_args()
    files = [
        [f"{chunk.header}\n{chunk.text}" for chunk in chunks]
        for root in arguments.roots
        for _, _, chunks in read(root)
        if chunks
    ]
    texts = sum(map(len, files))
    characters = sum(len(text) for file in files for text in file)
    embedder = await open_embedder(EmbedderSettings())
    seconds = []
    for _ in range(RUNS):
        start = time.process_time()
        for file in files:
            await embedder.embed_documents(file)
        seconds.append(time.process_time() - start)
    print(machine())
    print(f"{texts} chunks of {len(files)} files, {characters / texts:.0f} characters each")
    rates = [texts / duration for duration in seconds]
    print(
        f"chunks per CPU second: first run {rates[0]:.0f}, then median {np.median(rates[1:]):.0f}"
    )
    questions = []
    for number in range(2000):
        start = time.process_time()
        await embedder.embed_query(QUESTIONS[number % len(QUESTIONS)])
        questions.append((time.process_time() - start) * 1000)
    print(f"CPU of a question: {spread(questions[len(QUESTIONS) :])}")


if __name__ == "__main__":
    asyncio.run(main())
