"""Which requests are sent when, and the process that sends them and stamps what comes back."""
