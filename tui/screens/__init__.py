"""Screens: each handles what its widgets and workers post."""
