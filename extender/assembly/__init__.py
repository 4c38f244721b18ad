"""One process put together: adapters, engine, controllers. `runtime` runs it.

`process` is the whole; `mirrors` and `adapters` are the outside, and each of the three sides holds the controllers that
are about nodes, Pods or jobs. Whoever adds a controller adds it to a side, with what it runs.
"""

from extender.assembly.keys import KeyFileError, require_key
from extender.assembly.process import Assembly

__all__ = ["Assembly", "KeyFileError", "require_key"]
