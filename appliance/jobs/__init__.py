"""Document work over many documents: a row for each, its values held against the text by code."""
