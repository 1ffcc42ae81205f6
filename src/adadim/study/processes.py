"""Computing units in this process, or in several through joblib; each stores what it has computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial

from adadim.study import workers
from adadim.study.cells import Outcome, Unit
from adadim.study.engines import WorkersDiedError
from adadim.study.store import Span, Store

__all__ = ["Processes"]


class Processes:
    """An engine: this machine.

    Parameters
    ----------
    store : Store
        Where results go.
    planned : callable
        Lists the units that compute what is missing, given what is stored.
    compute : callable
        Computes and stores one unit.
    jobs : int
        Number of processes; 1 computes in this one.
    """

    def __init__(
        self,
        store: Store,
        planned: Callable[[Mapping[str, Sequence[Span]]], list[Unit]],
        compute: Callable[[Store, Unit], Outcome],
        jobs: int,
    ) -> None:
        self.store, self.plan, self.compute, self.jobs = store, planned, compute, jobs

    def pace(self) -> str:
        return ""

    def outcomes(self, units: Sequence[Unit]) -> Generator[tuple[Unit, Outcome]]:
        if self.jobs == 1:
            yield from ((unit, self.compute(self.store, unit)) for unit in units)
            return
        # At least two: joblib would do the work of one in this process, which must survive what a policy does to one.
        count = min(self.jobs, max(2, len(units)))
        task = partial(_in_worker, self.compute, self.store.absolute())
        by_id = {unit.id: unit for unit in units}
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*have been cancelled")  # after Ctrl-C: as it should be
                with closing(workers.outcomes(task, ((unit,) for unit in units), count)) as done:
                    for name, outcome in done:
                        yield by_id[name], outcome
        except BrokenProcessPool as error:
            raise WorkersDiedError from error


def _in_worker(compute: Callable[[Store, Unit], Outcome], store: Store, unit: Unit) -> tuple[str, Outcome]:
    return unit.id, compute(store, unit)
