"""Access to untrusted files: opens them without following links, and reads them within bounds."""
