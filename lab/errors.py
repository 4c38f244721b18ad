"""The one exception of the lab."""


class LabError(Exception):
    """The lab cannot do what was asked; the text says what is missing, where to look and what to do about it."""
