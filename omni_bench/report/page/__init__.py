"""report.html: one file with the verdict, the recordings to listen to, and who was in flight beside whom."""
