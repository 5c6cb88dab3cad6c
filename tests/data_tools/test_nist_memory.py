"""Loading NIST images takes the result's memory, a constant, and next to nothing per image.

The complete tree has 800,000 images. One Python object for each would take half as much as all their pixels, and is
easily brought back by a harmless-looking list of names, so it is measured.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from made_files import character_png

from data_tools import DataError, load
from data_tools.archives import member_names
from data_tools.name_rows import NameRows, digests_of

SMALL, LARGE = 4_000, 24_000
#: Bytes per image beyond its pixels and its label; a str of a member's name alone is 80.
LIMIT = 64

# The peak of a process that only loads. The conversion of a picture, which needs no memory of its own, is left out
# to save time; so is the cache, as its 16 MB buffer only fills with many images and would look like a growth.
SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from data_tools import nist

picture = np.ones(784, dtype=np.uint8)
nist.preprocessed_pixels = lambda png: picture
data = nist.load_nist(Path(sys.argv[1]), "nist-digits", workers=1, progress=False)
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
print(peak, sum(part.nbytes for part in (data.X_train, data.X_test, data.y_train, data.y_test)))
"""


def names(start: int, stop: int) -> Iterator[str]:
    for i in range(start, stop):
        writers = "hsf_4" if i % 7 == 0 else "hsf_0"
        yield f"by_class/{0x30 + i % 10:02x}/{writers}/{writers}_{i:05d}.png"


def make(kind: str, folder: Path, start: int, stop: int) -> None:
    """Images `start` to `stop` in one of the three forms, added to what is there."""
    png = character_png()
    if kind == "zip":
        with zipfile.ZipFile(folder / "by_class.zip", "a") as archive:
            for name in names(start, stop):
                archive.writestr(name, png)
    elif kind == "tar":
        with tarfile.open(folder / "by_class.tar", "a") as tar:
            for name in names(start, stop):
                info = tarfile.TarInfo(name)
                info.size = len(png)
                tar.addfile(info, io.BytesIO(png))
                tar.members = []  # type: ignore[attr-defined]
    else:
        first = folder / "one.bin"
        first.write_bytes(png)
        for name in names(0, 70):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        for name in names(start, stop):
            os.link(first, f"{folder}/{name}")


def beyond_the_result(folder: Path) -> int:
    """Peak memory of a load, without what it returns."""
    # glibc else moves the size from which freed memory goes back to the system, so that the peak grows in jumps.
    environment = {**os.environ, "NESI_CACHE": os.devnull, "MALLOC_MMAP_THRESHOLD_": "65536"}
    command, root = [sys.executable, "-c", SCRIPT, str(folder)], Path(__file__).parents[2]
    answer = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    peak, result = map(int, answer.stdout.split())
    return peak - result


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux' /proc")
@pytest.mark.parametrize("kind", ["zip", "tar", "tree"])
def test_memory_beyond_the_result_hardly_grows_with_the_images(tmp_path: Path, kind: str) -> None:
    make(kind, tmp_path, 0, SMALL)
    small = beyond_the_result(tmp_path)
    make(kind, tmp_path, SMALL, LARGE)
    large = beyond_the_result(tmp_path)
    assert (large - small) / (LARGE - SMALL) < LIMIT
    assert large < 250e6  # imports included


def test_names_are_found_again_and_repeated_ones_noticed() -> None:
    many = list(names(0, 2000))
    rows = NameRows(digests_of(many), np.arange(2000, dtype=np.int32))
    assert [rows.find(name) for name in many] == list(range(2000))
    assert "by_class/30/hsf_0/hsf_0_99999.png" not in rows
    assert rows.repeated() is None
    assert NameRows(digests_of([*many, many[5]]), np.arange(2001, dtype=np.int32)).repeated() in (5, 2000)
    assert "anything" not in NameRows(digests_of([]), np.arange(0, dtype=np.int32))


def test_an_image_that_an_archive_holds_twice_is_named(tmp_path: Path) -> None:
    make("tar", tmp_path, 0, 40)
    make("tar", tmp_path, 17, 18)
    (tmp_path / "nist").mkdir()
    (tmp_path / "by_class.tar").rename(tmp_path / "nist" / "by_class.tar")
    with pytest.raises(DataError, match=r"holds by_class/37/hsf_0/hsf_0_00017.png twice"):
        load("nist-digits", data_dir=tmp_path)


def test_a_tree_is_walked_in_the_order_of_its_sorted_paths(tmp_path: Path) -> None:
    expected = ["a", "a!/x", "a.png", "a/b", "a/c/d", "a/c.png", "a0", "b-/y", "b/z", "ä/1"]
    for name in np.random.default_rng(0).permutation(expected):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if name != "a":  # cannot be beside the folder a/
            (tmp_path / name).write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "a", target_is_directory=True)
    assert list(member_names(tmp_path)) == sorted(expected[1:])
