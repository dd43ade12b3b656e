"""What can be said about two sets of runs: pure arithmetic over numbers, no files and no servers."""
