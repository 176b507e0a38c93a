"""Settings of the command line tool: a file, then the environment."""

import os
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path


class ConfigError(Exception):
    """A setting cannot be used."""


@dataclass(frozen=True)
class Config:
    server_url: str = "http://localhost:8080"
    verbose: bool = False
    page_size: int = 50


def load_config(path: Path) -> Config:
    """Read settings; environment variables SHOP_* win over the file."""
    values = tomllib.loads(path.read_text()) if path.exists() else {}
    for field in fields(Config):
        variable = os.environ.get(f"SHOP_{field.name.upper()}")
        if variable is not None:
            values[field.name] = parse_value(field.name, variable)
    unknown = set(values) - {field.name for field in fields(Config)}
    if unknown:
        raise ConfigError(f"unknown settings: {', '.join(sorted(unknown))}")
    return Config(**values)


def parse_value(name: str, text: str) -> object:
    """Turn the text of an environment variable into the type of its setting."""
    if name == "verbose":
        return text.lower() in {"1", "true", "yes"}
    return int(text) if name == "page_size" else text
