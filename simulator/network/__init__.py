"""A network in memory, so that everything on it runs on virtual time, and what puts real clients and servers on it."""
