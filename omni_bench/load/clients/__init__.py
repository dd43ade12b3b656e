"""The wire forms: how a request is sent, and how an answer's bytes become samples and text."""
