"""Where to download the public data sets, and how to check a copy.

`content_sha256` is of the unpacked file, so it does not depend on how a mirror compressed it. Checksums come from
copies that were compared with the official files; the two `archive_hash` values are those that other public projects
and NIST itself have published for the official archives.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RemoteFile:
    """One file to download: its local name, its addresses in order of preference, and its checksums."""

    name: str
    urls: tuple[str, ...]
    #: pooch's form, `sha256:...` or `md5:...`, of the file as downloaded; None where it is not known.
    archive_hash: str | None = None
    #: SHA-256 of the content after unpacking gzip; None where it is not known.
    content_sha256: str | None = None


@dataclass(frozen=True)
class Source:
    """What `fetch NAME` downloads and the folder it goes to."""

    folder: str
    files: tuple[RemoteFile, ...]
    megabytes: int
    #: Whether an experiment may fetch it automatically; large data sets are only fetched on request.
    automatic: bool
    loads_as: tuple[str, ...]


def _idx_files(mirrors: tuple[str, ...], checksums: dict[str, str]) -> tuple[RemoteFile, ...]:
    return tuple(
        RemoteFile(f"{stem}.gz", tuple(f"{mirror}/{stem}.gz" for mirror in mirrors), content_sha256=checksum)
        for stem, checksum in checksums.items()
    )


_MNIST = _idx_files(
    ("https://storage.googleapis.com/cvdf-datasets/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist"),
    {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)
_FASHION = _idx_files(
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    ),
    {
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
)
_NEWS_MIRRORS = (
    "http://qwone.com/~jason/20Newsgroups",
    "http://people.csail.mit.edu/jrennie/20Newsgroups",
    "https://web.archive.org/web/2020id_/http://qwone.com/~jason/20Newsgroups",
)
NEWSGROUPS_ARCHIVE = "20news-bydate-matlab.tgz"
_NEWSGROUPS = (
    # The checksum of the archive is not known; its documents are checked instead (newsgroups.check_official).
    RemoteFile(NEWSGROUPS_ARCHIVE, tuple(f"{mirror}/{NEWSGROUPS_ARCHIVE}" for mirror in _NEWS_MIRRORS)),
    RemoteFile(
        "vocabulary.txt",
        tuple(f"{mirror}/vocabulary.txt" for mirror in _NEWS_MIRRORS),
        content_sha256="3c0f0d64a814ba8836334a0f23925cef751fb3636baea55772f1f8ede4b791bc",
    ),
)
_NIST = (
    RemoteFile(
        "by_class.zip",
        (
            "https://s3.amazonaws.com/nist-srd/SD19/by_class.zip",
            "https://nist-srd.s3.amazonaws.com/SD19/by_class.zip",
        ),
        archive_hash="md5:79572b1694a8506f2b722c7be54130c4",
    ),
)
_EMNIST = (
    RemoteFile(
        "gzip.zip",
        (
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
            "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/gzip.zip",
        ),
        archive_hash="sha256:fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
    ),
)

SOURCES = {
    "mnist": Source("mnist", _MNIST, 11, True, ("mnist",)),
    "fashion-mnist": Source("fashion-mnist", _FASHION, 31, True, ("fashion-mnist",)),
    "newsgroups": Source("20news", _NEWSGROUPS, 8, True, ("newsgroups20", "newsgroups6")),
    "nist": Source("nist", _NIST, 1000, False, ("nist-digits", "nist-letters")),
    "emnist": Source("emnist", _EMNIST, 562, False, ("emnist-<split>",)),
}

#: Single files of EMNIST's gzip.zip whose size and beginning of the SHA-256 are known, as packed by NIST.
EMNIST_FILES = {
    "emnist-byclass-train-images-idx3-ubyte.gz": (173_367_313, "9e21987f03a6"),
    "emnist-byclass-test-images-idx3-ubyte.gz": (28_908_322, "5ec835bd5d5b"),
}

#: Files that cannot be fetched but are recognised by their checksum if a user has them.
OTHER_FILES = {
    "nist-vowels": (
        "nist/sd19-vowels-128x128-png.tar.xz",
        "3e3858f4fde2fd35157f26d282a6c62540fa66979e18fb089d868b59a2c32fe8",
    ),
    "ocr-letters": ("nist/ocr-letters-16x8.npz", "6fe67a9d15ddbfc692ef1068334ed9ca665769ef00b43fbc898fe12a2445811b"),
}
