"""What many nights measured, in one database file, and its trends."""

DEFAULT_DATABASE = "reports/runs/history.sqlite"
