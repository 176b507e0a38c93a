"""Makes the built-in model, from package names to weights. Not part of the product; see README.md."""
