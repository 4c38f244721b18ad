"""Load certificates for servers and clients: `contexts` reloads their files, `expiry` reads the end of their validity.

The package `extender.certificates` creates them.
"""
