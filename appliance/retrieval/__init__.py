"""Chunk, embed, index, search and ground: the only importer of lancedb and fastembed."""
