"""The engine behind the front ends: families of verbs, requests and replies as values."""
