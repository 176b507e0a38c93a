"""Worker processes that parse untrusted files, and the quarantine of what ends one."""
