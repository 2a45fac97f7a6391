"""One module per family of formats: bytes into a `DocumentBuilder`, only ever inside the confined process."""
