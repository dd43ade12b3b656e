"""The server's routes: what a request may say, and how the answer is sent."""
