"""Create and renew certificates by a command; `tls` serves with them and reloads them.

`plan` decides and is pure except for fresh keys; `secrets` and `folder` store what it decides; `renewal` applies it.
The server process imports only `tls`; only the command needs the cryptography package.
"""
