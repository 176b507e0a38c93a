"""One module a way to compute vectors; `factory` opens them by name."""
