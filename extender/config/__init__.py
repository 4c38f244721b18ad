"""The configuration: one strict, versioned YAML document, with environment and flags over it.

The package has the model of the document, its reader, which names every fault at once, and the values that are derived
from it for other packages. Nothing here opens a connection, and the only file read is the document itself.
"""
