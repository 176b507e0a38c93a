"""Code facts: queries for imports, uses and variables (`<language>.scm`), and their evaluation."""
