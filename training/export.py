"""Step 5: float32 weights -> the files the product ships. `python -m training.export MODEL.npz
[--name static_v2]`.

int8 with one scale a row loses nothing that the evaluation can see.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cocosearchd.embedding.providers.static_model import PARTS, TermWeights, model_digest

DATA = Path(__file__).resolve().parent.parent / "daemon" / "cocosearchd" / "embedding" / "data"
# Of `static.TermWeights`, in use. Training weighs headers more, as its sentences speak of names
# more than questions do. With .35 a sentence finds its function better and a question its file
# worse: see the model card.
HEADER, PATH = 0.15, 0.1


def quantised(matrix: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """(rows, scales) with matrix ≈ rows x scales; a row's largest value becomes 127."""
    scales = (np.abs(matrix).max(axis=1) / 127).astype(np.float32)
    rows = np.round(matrix / np.maximum(scales, 1e-12)[:, None]).astype(np.int8)
    return rows, scales


def main() -> None:
    """Write the files and print their digest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--name", default="static_v2")
    parser.add_argument("--to", type=Path, default=DATA)
    parser.add_argument("--header", type=float, default=HEADER)
    parser.add_argument("--path", type=float, default=PATH)
    arguments = parser.parse_args()
    arguments.to.mkdir(parents=True, exist_ok=True)
    stored = np.load(arguments.model)
    rows, scales = quantised(stored["matrix"])
    weighing = TermWeights(float(stored["weighing"][0]), arguments.header, arguments.path)
    files = dict(
        zip(PARTS, (arguments.to / f"{arguments.name}{part}" for part in PARTS), strict=True)
    )
    files[".words"].write_text("\n".join(str(word) for word in stored["words"]), "utf-8")
    np.save(files[".rows.npy"], rows)
    np.save(files[".scales.npy"], scales)
    about = {
        "version": arguments.name.replace("_", "-"),
        "dimension": rows.shape[1],
        **asdict(weighing),
        "buckets": int(stored["buckets"]),
        "sha256": model_digest(arguments.to, arguments.name, weighing),
    }
    (arguments.to / f"{arguments.name}.json").write_text(
        json.dumps(about, indent=2) + "\n", "utf-8"
    )
    print(about["sha256"])


if __name__ == "__main__":
    main()
