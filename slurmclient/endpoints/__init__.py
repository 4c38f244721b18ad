"""Every call of slurmrestd that this package makes: path, body, effect, and how the answer is read. No I/O.

One file for each noun, one function or constant for each call; ``session.py`` carries them out.
"""
