"""Define every call of slurmrestd that this package makes: path, body, effect, and reader of the answer. No I/O.

One file for each noun, one function or constant for each call; `session.py` carries them out.
"""
