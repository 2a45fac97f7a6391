"""Chunk, embed, index, search and ground: the only importer of lancedb and fastembed."""

import os

# Read when onnxruntime is imported; without it, that library sends a device id and facts of this machine away.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
