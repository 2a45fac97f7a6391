"""Users, tokens and the audit log in SQLite; nothing of HTTP, so that the command line uses them too."""
