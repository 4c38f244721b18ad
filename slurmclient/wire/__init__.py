"""Between JSON and ``models``: tolerant readers, strict writers, one codec for each API version.

Pure functions over parsed JSON, no I/O. What all versions share stands in ``envelope`` and in one file for each
noun; what a version does its own way stands in that version's codec, ``v0040`` … ``v0045``, each built on the next
newer one. Readers take what is there: unknown fields are ignored, missing ones read as "not said", and one odd
object of a list is left out and reported instead of failing the rest.
"""

from __future__ import annotations

from slurmclient.wire.codec import Codec
from slurmclient.wire.v0040 import CodecV0040
from slurmclient.wire.v0041 import CodecV0041
from slurmclient.wire.v0042 import CodecV0042
from slurmclient.wire.v0043 import CodecV0043
from slurmclient.wire.v0044 import CodecV0044
from slurmclient.wire.v0045 import CodecV0045

#: Codecs by API version.
CODECS: dict[int, Codec] = {
    codec.version: codec
    for codec in (CodecV0045(), CodecV0044(), CodecV0043(), CodecV0042(), CodecV0041(), CodecV0040())
}
