"""One SQLite file: connections, migrations, backups, the writer lock. The tables live with each feature."""
