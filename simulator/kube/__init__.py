"""A fake API server, spoken to through its HTTP surface, and small stand-ins for kubelet.

It keeps what clients can observe of the real one: one resource version for everything, lists in pages of one snapshot,
watches from a version with bookmarks and 410, three kinds of patches, subresources, preconditions, graces, budgets.
One suite of requests runs against it and against the real one, so that it cannot drift.
"""
