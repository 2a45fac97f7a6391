"""Compares the engine with llama.cpp's own programs, compiled from the same source, side by side in one run."""
