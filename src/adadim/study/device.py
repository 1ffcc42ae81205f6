"""Running a study on a GPU: one process, hundreds of replications in lock step.

Units that differ in their instance alone run together, whatever d* they have: the GPU is no slower for it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

from adadim.errors import DeviceError, RunError
from adadim.instances.contexts import ContextInstance
from adadim.instances.instance import Instance
from adadim.models.cost import replication_bytes
from adadim.play.simulate import simulate
from adadim.policies.assumptions import without_warning_about_sets
from adadim.study.cells import Cell, Unit, UnitStatus
from adadim.study.store import Store, encoded

InstanceKey = tuple[str, int, int]
"""Name of an instance, its first replication and the one after the last."""

SHARE = 0.8  # of the GPU's free memory
CHUNK = 8  # replications of an instance made by one thread


def gpu_memory(device: str) -> tuple[int, int]:
    """Bytes of a GPU's memory that are free, and all."""
    import torch

    free, total = torch.cuda.mem_get_info(torch.device(device))
    return free, total


def device_regret(unit: Unit, device: str) -> Any:
    """Regret of the replications of one unit, computed on the device."""
    made: dict[InstanceKey, Instance] = {}
    (group,) = _joinable([unit], made, device)
    return _simulate(group, made, device)


def device_batch(cells: Sequence[Cell], device: str, memory: tuple[int, int] | None = None) -> int:
    """Replications that fit on the device in lock step, for the largest of the cells.

    The GPU is one of this machine, or another with so many bytes free, and in all.
    """
    free, total = gpu_memory(device) if memory is None else memory
    largest = max(cells, key=lambda cell: cell.replication_bytes)
    fit = int(SHARE * free / largest.replication_bytes)
    if fit < 1:
        arms = largest.arms
        while arms and replication_bytes(arms, largest.dim, largest.horizon) > SHARE * free:
            arms = arms * 9 // 10
        raise DeviceError(
            f"{largest.instance}: one replication of {largest.arms} arms with {largest.dim} features needs about "
            f"{largest.replication_bytes / 2**30:.3g} GiB, and {device} has {free / 2**30:.3g} of "
            f"{total / 2**30:.3g} GiB free; with so many features about "
            f"{arms} arms would fit"
        )
    return fit


class GpuEngine:
    """An engine: a GPU of this machine, with at most `batch` replications in lock step."""

    jobs, memory = 1, None
    rounds: Path | None = None

    def __init__(self, store: Store, device: str, batch: int) -> None:
        self.store, self.device, self.batch = store, device, batch

    def pace(self) -> str:
        return ""

    def compute(self, units: Sequence[Unit]) -> Generator[tuple[Unit, UnitStatus]]:
        for together in _batches(units, self.batch):
            made: dict[InstanceKey, Instance] = {}
            for of_one_policy in _by_policy(together):
                with ExitStack() as claims:
                    claimed = []
                    for unit in of_one_policy:
                        held = claims.enter_context(self.store.claims.hold(unit.cell.id, unit.span))
                        status: UnitStatus | None = self.store.state(unit) if held else "busy"
                        if status is None:
                            claimed.append(unit)
                        else:
                            yield unit, status
                    for group in _joinable(claimed, made, self.device):
                        regret = _simulate(group, made, self.device)
                        for unit in group:
                            here, regret = regret[: unit.stop - unit.start], regret[unit.stop - unit.start :]
                            self.store.write(unit, encoded(unit, here))
                            yield unit, "computed"


def _simulate(group: Sequence[Unit], made: Mapping[InstanceKey, Instance], device: str) -> Any:
    """Regret of all replications of the group, one unit after the other."""
    cell = group[0].cell
    with _failures_explained(group[0], sum(unit.stop - unit.start for unit in group), device):
        instance = Instance.join([made[_instance_key(unit)] for unit in group])
        with without_warning_about_sets():  # `Study.check` has warned
            return simulate(cell.policy_object, instance, seed=cell.seed, record=cell.times, progress=False).regret


@contextmanager
def _failures_explained(unit: Unit, count: int, device: str) -> Iterator[None]:
    """Say what failed, and what would help where `count` replications were too many."""
    try:
        yield
    except Exception as error:
        hint = ""
        if "out of memory" in str(error):
            hint = f"; {count} replications at once are too many for {device}: try a batch of {max(1, count // 2)}"
        raise RunError(f"{unit} on {device}: {type(error).__name__}: {error}{hint}") from error


def _instance_key(unit: Unit) -> InstanceKey:
    return unit.cell.instance, unit.start, unit.stop


def _batches(units: Iterable[Unit], batch: int) -> Iterator[list[Unit]]:
    """Units on equally large instances, in batches of at most so many replications."""
    by_size: dict[tuple[int, int, int], dict[InstanceKey, list[Unit]]] = {}
    for unit in units:
        size = (unit.cell.arms, unit.cell.dim, unit.cell.horizon)
        by_size.setdefault(size, {}).setdefault(_instance_key(unit), []).append(unit)
    for by_instance in by_size.values():
        together: list[Unit] = []
        replications = 0
        for (_, start, stop), on_same_instance in by_instance.items():
            if together and replications + stop - start > batch:
                yield together
                together, replications = [], 0
            together += on_same_instance
            replications += stop - start
        yield together


def _by_policy(units: Iterable[Unit]) -> Iterator[list[Unit]]:
    """Units of the same policy, seed and record points."""
    groups: dict[Any, list[Unit]] = {}
    for unit in units:
        key = (str(unit.cell.identity["policy"]), unit.cell.seed, unit.cell.times)
        groups.setdefault(key, []).append(unit)
    yield from groups.values()


def _joinable(units: Sequence[Unit], made: dict[InstanceKey, Instance], device: str) -> list[list[Unit]]:
    """Units whose instances can run together; instances not yet in `made` are put there."""
    groups: list[list[Unit]] = []
    for unit in units:
        if _instance_key(unit) not in made:
            with _failures_explained(unit, sum(x.stop - x.start for x in units), device):
                made[_instance_key(unit)] = _instance(unit, device)
        for group in groups:
            if made[_instance_key(unit)].joins(made[_instance_key(group[0])]):
                group.append(unit)
                break
        else:
            groups.append([unit])
    return groups


def _instance(unit: Unit, device: str) -> Any:
    """The unit's instance on the device, made by all cores."""
    starts = range(unit.start, unit.stop, CHUNK)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(joblib.cpu_count()) as pool:
        chunks = [range(start, min(start + CHUNK, unit.stop)) for start in starts]
        parts = list(pool.map(lambda chunk: unit.cell.make(chunk).to(device), chunks))
    if isinstance(parts[0], ContextInstance):  # nothing is drawn beforehand
        return unit.cell.make(range(unit.start, unit.stop)).to(device)
    return Instance.join(parts)
