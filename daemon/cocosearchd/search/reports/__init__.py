"""Long questions, such as bug reports and logs: read as documents with parts, each searched for itself"""
