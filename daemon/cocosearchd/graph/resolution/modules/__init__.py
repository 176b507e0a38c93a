"""Module rules: one module a language says how it finds modules and names objects."""
