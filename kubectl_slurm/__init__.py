"""`kubectl slurm`: what people ask about Pods that Slurm places. A program of its own, which needs access to the API
server and nothing else; what only the extender's `/debug` knows is asked there where that can be reached.
"""
