"""One module per family of formats; each turns bytes into a `DocumentBuilder`, inside the confined process only."""
