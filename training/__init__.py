"""How the built-in model is made: from package names to weights. Not part of the product; see
README.md.
"""
