"""Files to text with structure: the only package that opens documents, each in a confined child process.

`parser.DocumentParser` reads one file into a `model.ParsedDocument` or raises `DocumentError` with one of the
reasons in `reasons`; `discovery.discover` walks folders and says of each file whether it is read or skipped.
"""
