"""Pure values and ports: the words every other package speaks. Imports nothing of ours."""
