"""A team of Dask workers: each has an actor with its part of the data, and actors ask each other for what they need."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from nesi.errors import NesiError
from nesi.experiment.cluster import check_workers, connect
from nesi.threads import thread_environment
from nesi.training.member import Member, Peer, PointsOfPart
from nesi.training.settings import TrainingSettings
from nesi.training.team import WorkerLost

SECONDS_TO_RETURN = 60  # for workers, or a scheduler, that start again
_SECONDS_BETWEEN_LOOKS = 1.0  # at whether all workers are still there
_SECONDS_TO_START_WORKERS = 120


_HANDLER = "nesi_answer"
_team_here = ""  # the last one that this worker was called to


class MemberActor(Member):
    """What runs on a worker. It answers others from the worker's event loop, so that nobody waits for one who waits."""

    def __init__(self, team: str, *given: Any) -> None:
        global _team_here
        from distributed import get_worker

        self._team = _team_here = team
        self._worker = get_worker()
        self._worker.handlers[_HANDLER] = _answering(self)
        super().__init__(*given)

    def meet_at(self, me: int, addresses: list[str], first: int, last: int) -> None:
        """As `meet`, with the workers at these addresses."""
        peers: list[Peer] = [partial(self._ask, address) for address in addresses]
        peers[me] = lambda *question: lambda: self.give(*question)
        self.meet(me, peers, first, last)

    def _ask(self, address: str, what: str, first: int, last: int) -> Callable[[], Any]:
        """Returns at once; who calls the result waits for the answer."""

        async def question() -> Any:
            peer = self._worker.rpc(address)
            return await getattr(peer, _HANDLER)(team=self._team, what=what, first=first, last=last)

        asked = asyncio.run_coroutine_threadsafe(question(), self._worker.loop.asyncio_loop)
        return partial(self._answer_to, asked, address)

    def _answer_to(self, asked: Any, address: str) -> Any:
        problem = "has another team by now"
        while self._team == _team_here:  # if not, the others have given this team up
            try:
                return asked.result(timeout=_SECONDS_BETWEEN_LOOKS / 4)["answer"]
            except Exception as error:
                if asked.done():
                    problem = type(error).__name__
                    break
        asked.cancel()
        raise OSError(f"the worker at {address} does not answer ({problem})")

    async def _answer(self, team: str, what: str, first: int, last: int) -> dict[str, Any]:
        from distributed.protocol import to_serialize

        if team != self._team:
            raise OSError("this worker has another team by now")
        return {"answer": to_serialize(self.give(what, first, last))}


def _answering(member: MemberActor) -> Callable[..., Any]:
    """A worker outlives its teams, and must not keep the data of one that is done."""
    there = weakref.ref(member)

    async def answer(**question: Any) -> dict[str, Any]:
        if (asked := there()) is None:
            raise OSError("the team of this worker is done")
        return await asked._answer(**question)

    return answer


class DaskTeam:
    """The workers of a cluster."""

    def __init__(self, client: Any, threads: int | None) -> None:
        self._client, self._threads = client, threads
        self._addresses = sorted(self._workers())
        self._actors: list[Any] = []

    @property
    def size(self) -> int:
        return len(self._addresses)

    def gather(self, settings: TrainingSettings, points: Sequence[Sequence[PointsOfPart]]) -> None:
        self._addresses = self._addresses[: len(points)]
        with self._client.as_current(), _lost_workers():  # actors look for the current client
            futures, name = [], uuid.uuid4().hex
            for address, parts in zip(self._addresses, points, strict=True):
                sent = self._client.scatter(list(parts), workers=[address], hash=False)
                futures.append(
                    self._client.submit(
                        MemberActor,
                        name,
                        settings,
                        self._threads,
                        sent,
                        actor=True,
                        workers=[address],
                        pure=False,
                        key=f"nesi-member-{uuid.uuid4().hex}",
                    )
                )
            self._actors = [self._waited(future.result) for future in futures]

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        if method == "meet":
            method, arguments = "meet_at", [(me, self._addresses, *rest) for me, *rest in arguments]
        with self._client.as_current(), _lost_workers():
            waiting = [getattr(actor, method)(*given) for actor, given in zip(self._actors, arguments, strict=True)]
            return [self._waited(each.result) for each in waiting]

    def _waited(self, result: Callable[..., Any]) -> Any:
        """Whoever waits for a worker that is gone might wait forever."""
        while True:
            try:
                return result(timeout=_SECONDS_BETWEEN_LOOKS)
            except TimeoutError:
                if not set(self._addresses) <= self._workers():
                    raise WorkerLost from None

    def _workers(self) -> set[str]:
        with _lost_workers():
            if self._client.status != "running":
                raise WorkerLost
            return set(self._client.nthreads())


@contextlib.contextmanager
def _lost_workers() -> Iterator[None]:
    """Lost workers and connections show up as various errors of Dask; anything else is a bug and stays loud."""
    try:
        yield
    except (NesiError, WorkerLost):
        raise
    except Exception as error:
        from concurrent.futures import CancelledError

        foreign = type(error).__module__.startswith(("distributed", "asyncio", "concurrent", "tornado"))
        lost_actor = isinstance(error, RuntimeError) and "Actor" in str(error)
        if foreign or lost_actor or isinstance(error, CancelledError | OSError):
            raise WorkerLost from error
        raise


@contextlib.contextmanager
def team_of_cluster(address: str, threads: int | None, patient: bool) -> Iterator[DaskTeam]:
    """All workers that the scheduler has now; a `patient` caller waits for one that starts again."""
    client = connect(address, SECONDS_TO_RETURN if patient else None)
    try:
        check_workers(client)
        yield DaskTeam(client, threads)
    finally:
        with contextlib.suppress(Exception):  # the cluster may be the very thing that is gone
            client.close(timeout=5)


class LocalWorkers:
    """Processes on this machine, which are started again when they die."""

    def __init__(self, count: int, threads: int) -> None:
        try:
            from distributed import LocalCluster
        except ImportError:
            raise NesiError(
                "distribute: data with --workers needs Dask; install it with: pip install 'nesi[cluster]'."
            ) from None
        self._count, self._threads = count, threads
        with thread_environment(threads):
            self._cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                scheduler_kwargs={"dashboard": False, "dashboard_address": ":0"},  # its usual port may be taken
                silence_logs=50,
                memory_limit=0,
            )

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._cluster.close(timeout=10)

    @contextlib.contextmanager
    def team(self) -> Iterator[DaskTeam]:
        client = connect(self._cluster.scheduler_address, _SECONDS_TO_START_WORKERS)
        try:
            with thread_environment(self._threads):
                self._wait_for_all(client)
            yield DaskTeam(client, self._threads)
        finally:
            with contextlib.suppress(Exception):
                client.close(timeout=5)

    def _wait_for_all(self, client: Any) -> None:
        try:
            client.wait_for_workers(self._count, timeout=_SECONDS_TO_START_WORKERS)
        except TimeoutError:
            raise NesiError(
                f"{len(client.nthreads())} of {self._count} workers have started within {_SECONDS_TO_START_WORKERS} "
                "seconds; ask for fewer with --workers, and continue with --resume."
            ) from None
