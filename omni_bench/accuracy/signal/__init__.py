"""Checks of the samples themselves, without a judge: clicks, dropouts, noise, copied or trailing audio."""
