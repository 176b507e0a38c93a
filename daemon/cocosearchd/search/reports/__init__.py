"""Reports are long questions, such as bug reports and logs: each part is searched for itself."""
