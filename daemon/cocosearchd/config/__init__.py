"""Settings and their layers: files, environment, command line, and the files of a project."""
