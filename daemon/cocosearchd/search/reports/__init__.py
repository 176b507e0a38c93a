"""Analysis of reports: long questions such as bug reports and logs, read in parts."""
