"""History as evidence: commits whose messages have the words of a report, files that change together."""
