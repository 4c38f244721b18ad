"""The life of a placeholder job: every legal transition lives in this package, and only here is a state assigned.

Each state has a file with all of its rules, ignored events included. `rules` is their form, `transitions` holds the
moves that several states share, `preprocessing` what every event says in any state, and `machine` the whole table.
"""
