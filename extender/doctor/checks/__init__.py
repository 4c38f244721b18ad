"""Checks: from facts to findings. Pure; what they are about stands in the name of the file."""
