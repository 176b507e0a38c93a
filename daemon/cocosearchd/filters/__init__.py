"""The filters of questions: one table of fields, and each meaning as SQL and as Python.

`filter_fields` is the table. The store composes its SQL, the search flow asks its predicates.
"""
