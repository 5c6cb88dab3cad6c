"""The note that `watched_run` keeps, for whoever reads it without loading the program."""

import mmap
import struct

STAGES = ("start-up", "first layer", "second layer", "both layers", "between runs")
NOTE = struct.Struct("<BBQ")
SIZE = NOTE.size


def read_note(shared: mmap.mmap) -> tuple[int, int, int]:
    """Stage, writing, count."""
    stage, writing, count = NOTE.unpack_from(shared)
    return stage, writing, count
