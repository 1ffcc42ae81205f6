"""Who runs a study on a GPU: one process, hundreds of replications in lock step.

Units that differ in their instance alone run together, whatever d* they have: the card is no slower for it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

from adadim.errors import DeviceError
from adadim.problem import Instance
from adadim.simulate import simulate
from adadim.study.cells import Cell, Outcome, RunError, Unit
from adadim.study.results import standing
from adadim.study.store import Store

__all__ = ["device_batch", "outcomes", "replication_bytes"]

Place = tuple[str, int, int]
"""Name of an instance, first replication and the one after the last."""

SHARE = 0.8  # of the card's free memory
CHUNK = 8  # replications of an instance made by one thread
NUMBER = 8  # bytes


def replication_bytes(cell: Cell) -> int:
    """Memory on the device that one replication takes, at most, whatever the policy.

    Three times the features (two of them while instances are joined), a K x K or the nested d x d matrices with their
    arms, and for each of the bases of a master its random numbers, its past and its arms.
    """
    k, d = cell.arms, cell.dim
    bases = 2 + math.ceil(math.log2(d + 1))
    matrices = min(k * k, 5 * (k * d + d * d)) + 2 * d * d
    return NUMBER * (3 * k * d + matrices + 100 * k + bases * (2 * cell.horizon + 2 * k))


def device_batch(cells: Sequence[Cell], device: str) -> int:
    """Replications that fit on the device in lock step, for the largest of the cells."""
    import torch

    free, total = torch.cuda.mem_get_info(torch.device(device))
    largest = max(cells, key=replication_bytes)
    fit = int(SHARE * free / replication_bytes(largest))
    if fit < 1:
        raise DeviceError(
            f"{largest.instance}: one replication of {largest.arms} arms with {largest.dim} features needs about "
            f"{replication_bytes(largest) / 2**30:.3g} GiB, and {device} has {free / 2**30:.3g} of "
            f"{total / 2**30:.3g} GiB free; with so many features about "
            f"{int(largest.arms * SHARE * free / replication_bytes(largest))} arms would fit"
        )
    return fit


def outcomes(store: Store, units: Sequence[Unit], device: str, batch: int) -> Generator[tuple[Unit, Outcome]]:
    """Compute and store units, as many replications at a time as `batch` allows; tells of each as it is done."""
    for together in _batches(units, batch):
        made: dict[Place, Instance] = {}
        for agents in _by_agent(together):
            with ExitStack() as claims:
                mine = []
                for unit in agents:
                    claimed = claims.enter_context(store.claim(unit.cell.id, (unit.start, unit.stop)))
                    outcome: Outcome | None = standing(store, unit) if claimed else "busy"
                    if outcome is None:
                        mine.append(unit)
                    else:
                        yield unit, outcome
                for group in _joinable(mine, made, device):
                    regret = _simulate(group, made, device)
                    for unit in group:
                        here, regret = regret[: unit.stop - unit.start], regret[unit.stop - unit.start :]
                        store.write(unit, here)
                        yield unit, "computed"


def _simulate(group: Sequence[Unit], made: Mapping[Place, Instance], device: str) -> Any:
    """Regret of all replications of the group, one unit after the other."""
    cell = group[0].cell
    with _explained(group[0], sum(unit.stop - unit.start for unit in group), device):
        instance = Instance.join([made[_place(unit)] for unit in group])
        return simulate(cell.agent, instance, seed=cell.seed, record=cell.times).regret


@contextmanager
def _explained(unit: Unit, count: int, device: str) -> Iterator[None]:
    """Say what failed, and what would help where `count` replications were too many."""
    try:
        yield
    except Exception as error:
        hint = ""
        if "out of memory" in str(error):
            hint = f"; {count} replications at once are too many for {device}: try a batch of {max(1, count // 2)}"
        raise RunError(f"{unit} on {device}: {type(error).__name__}: {error}{hint}") from error


def _place(unit: Unit) -> Place:
    return unit.cell.instance, unit.start, unit.stop


def _batches(units: Iterable[Unit], batch: int) -> Iterator[list[Unit]]:
    """Units on equally large instances, in batches of at most so many replications."""
    by_size: dict[tuple[int, int, int], dict[Place, list[Unit]]] = {}
    for unit in units:
        size = (unit.cell.arms, unit.cell.dim, unit.cell.horizon)
        by_size.setdefault(size, {}).setdefault(_place(unit), []).append(unit)
    for places in by_size.values():
        together: list[Unit] = []
        replications = 0
        for (_, start, stop), here in places.items():
            if together and replications + stop - start > batch:
                yield together
                together, replications = [], 0
            together += here
            replications += stop - start
        yield together


def _by_agent(units: Iterable[Unit]) -> Iterator[list[Unit]]:
    """Units of the same policy, seed and record points."""
    found: dict[Any, list[Unit]] = {}
    for unit in units:
        key = (str(unit.cell.identity["policy"]), unit.cell.seed, unit.cell.times)
        found.setdefault(key, []).append(unit)
    yield from found.values()


def _joinable(units: Sequence[Unit], made: dict[Place, Instance], device: str) -> list[list[Unit]]:
    """Units whose instances can run together; instances not yet in `made` are put there."""
    found: list[list[Unit]] = []
    for unit in units:
        if _place(unit) not in made:
            with _explained(unit, sum(x.stop - x.start for x in units), device):
                made[_place(unit)] = _instance(unit, device)
        for group in found:
            if made[_place(unit)].joins(made[_place(group[0])]):
                group.append(unit)
                break
        else:
            found.append([unit])
    return found


def _instance(unit: Unit, device: str) -> Instance:
    """The unit's instance on the device, made by all cores."""
    starts = range(unit.start, unit.stop, CHUNK)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(joblib.cpu_count()) as pool:
        chunks = [range(start, min(start + CHUNK, unit.stop)) for start in starts]
        return Instance.join(list(pool.map(lambda chunk: unit.cell.make(chunk).to(device), chunks)))
