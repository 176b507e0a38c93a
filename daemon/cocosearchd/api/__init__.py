"""What front ends call: one object a family of verbs, requests and replies as values."""
