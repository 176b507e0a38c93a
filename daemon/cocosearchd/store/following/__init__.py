"""Following: reads of the schemas of other daemons, and what daemons publish for each other."""
