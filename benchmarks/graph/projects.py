"""The projects whose code graph is compared with SCIP indexes, at fixed revisions"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Language = Literal["Python", "TypeScript"]


@dataclass(frozen=True, slots=True)
class Project:
    """A public project. `is_held_out`: nobody looked at its misses while rules were written."""

    name: str
    repository: str  # owner and name on GitHub
    revision: str
    language: Language
    folders: tuple[str, ...]  # that are indexed; of Python, the one that holds the package
    paths: Mapping[str, str] = field(default_factory=dict)  # of TypeScript: names of modules
    options: Mapping[str, Any] = field(default_factory=dict)  # of the TypeScript compiler
    is_held_out: bool = False


PROJECTS = (
    Project(
        "flask", "pallets/flask", "2ac89889f4cc330eabd50f295dcef02828522c69", "Python", ("src",)
    ),
    Project(
        "requests", "psf/requests", "1f6589ec3a1ee910f9a65cc3ceac60b26677bc0e", "Python", ("src",)
    ),
    Project(
        "click", "pallets/click", "2c8cd3ac958a7eb316d67f2d316c27086c4c0369", "Python", ("src",)
    ),
    Project(
        "httpx",
        "encode/httpx",
        "ae1b9f66238f75ced3ced5e4485408435de10768",
        "Python",
        ("",),
        is_held_out=True,
    ),
    Project(
        "zod",
        "colinhacks/zod",
        "e516c3baf22615e20934116abebfed6c000222c2",
        "TypeScript",
        ("packages/zod/src",),
        {"zod": "packages/zod/src/index.ts", "zod/*": "packages/zod/src/*"},
    ),
    Project(
        "hono",
        "honojs/hono",
        "28a9c128912de19f3fb28b00ae289c9b93f6f392",
        "TypeScript",
        ("src",),
        {
            "hono/jsx/jsx-runtime": "src/jsx/jsx-runtime.ts",
            "hono/jsx/jsx-dev-runtime": "src/jsx/jsx-dev-runtime.ts",
            "hono": "src/index.ts",
            "hono/*": "src/*",
        },
        {"jsxImportSource": "hono/jsx"},
    ),
    Project(
        "redux-toolkit",
        "reduxjs/redux-toolkit",
        "74200d87c27ca2b1c0915b2fbb4c44dd7494c2aa",
        "TypeScript",
        ("packages/toolkit/src",),
        {
            "@internal/*": "packages/toolkit/src/*",
            "@reduxjs/toolkit": "packages/toolkit/src/index.ts",
            "@reduxjs/toolkit/query": "packages/toolkit/src/query/index.ts",
            "@reduxjs/toolkit/query/react": "packages/toolkit/src/query/react/index.ts",
            "@reduxjs/toolkit/react": "packages/toolkit/src/react/index.ts",
        },
    ),
    Project(
        "ky",
        "sindresorhus/ky",
        "3419113b48e034fdcf8fa6bd3be3da7b3d0d758f",
        "TypeScript",
        ("source", "test"),
        is_held_out=True,
    ),
)
