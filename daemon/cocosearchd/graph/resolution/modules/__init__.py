"""Module rules: for each language family, one Python module with its rules for modules and names."""
