"""Fetch the facts that the checks judge. What cannot be fetched is a fact too, with its reason."""
