"""From a request's text and voice to the talker's prompt."""
