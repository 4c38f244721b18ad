"""Translate between JSON and `models`: tolerant readers, strict writers, one codec for each API version.

Pure functions over parsed JSON, no I/O. `envelope` and one file for each object hold the parts that all versions share.
The codec of each version, `v0040` … `v0045`, holds its differences from the next newer one. Readers ignore unknown
fields, read missing ones as unset, and leave out and report an unreadable object of a list.
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
