"""Routes of this appliance: documents, conversations, extraction, the worked example, administration."""
