"""Worker processes that parse untrusted files, and the quarantine of contents that end one."""
