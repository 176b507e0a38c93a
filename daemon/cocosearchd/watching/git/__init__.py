"""Git repositories, read without trusting them: only `git_command` starts git."""
