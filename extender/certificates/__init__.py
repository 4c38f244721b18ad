"""Certificates: the command that makes and renews them, and `tls`, which serves with them and reloads them.

`plan` decides and is pure except for fresh keys; `secrets` and `folder` store what it decides; `renewal` applies it.
Nothing that serves imports more than `tls`: the command alone needs the cryptography package.
"""
