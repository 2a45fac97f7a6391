"""The terminal interface: the only importer of textual."""
