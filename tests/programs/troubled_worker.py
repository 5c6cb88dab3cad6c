"""A Dask worker preloads this: while a round is being merged it is slow, dies, or takes the scheduler with it.

NESI_TEST_TROUBLE names a folder. The file `slow` in it makes every other round of this worker slow; `worker` or
`scheduler` hold the number of the round in which one process of that kind is killed, once; the pid of the scheduler is
in `scheduler.pid`.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

from nesi.experiment.dask_team import MemberActor
from nesi.training.member import Member

_FOLDER = Path(os.environ["NESI_TEST_TROUBLE"])
_rounds = 0


def merge_with_trouble(self: MemberActor) -> None:
    global _rounds
    _rounds += 1
    for victim in ("worker", "scheduler"):
        with contextlib.suppress(OSError):
            if _rounds >= int((_FOLDER / victim).read_text()):
                (_FOLDER / victim).unlink()  # only one of the workers can
                pid = os.getpid() if victim == "worker" else int((_FOLDER / "scheduler.pid").read_text())
                os.kill(pid, signal.SIGKILL)
    if (_FOLDER / "slow").exists() and _rounds % 2:
        time.sleep(0.05)
    Member.merge(self)


MemberActor.merge = merge_with_trouble  # type: ignore[method-assign]
