"""The configuration: one strict, versioned YAML document, with environment and flags over it.

Here live the model of the document, its reading with every fault said at once, and what is derived from it for other
rooms. Nothing here opens a connection, and the only file read is the document itself.
"""
