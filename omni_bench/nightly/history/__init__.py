"""What many nights measured, in one database file, and its trends."""
