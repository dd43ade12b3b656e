"""Before and after, from stored runs: one comparison, as markdown for a pull request, JSON and plots."""
