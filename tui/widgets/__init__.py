"""Widgets: they render what they are given and post what the user did."""
