"""Files that anybody may have written: opened without following links, read within bounds."""
