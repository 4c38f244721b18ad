"""Place the members of a gang together: collect them, offer nodes to each, and bind all or none.

A single Pod is a workload of one member, so its Binding goes the same way.
"""
