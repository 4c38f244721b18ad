"""Certificates to serve and to call with: `contexts` takes up their files, `expiry` reads until when they are good.

Nothing here makes one: that is `extender.certificates`.
"""
