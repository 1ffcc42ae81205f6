"""Studies: what to run (`Study`), running it (`run`, with an example), and its results (`load`, `status`)."""

from adadim.errors import RunError, StoreError, StudyError
from adadim.study.cells import Cell, Unit
from adadim.study.executor import Progress, batch_size, run
from adadim.study.kinds import from_spec, instance_kinds, load_plugin, policy_kinds, to_spec
from adadim.study.results import CellStatus, Results, Status, load, status
from adadim.study.source import MadeBy
from adadim.study.study import Study

__all__ = [
    "Cell",
    "CellStatus",
    "MadeBy",
    "Progress",
    "Results",
    "RunError",
    "Status",
    "StoreError",
    "Study",
    "StudyError",
    "Unit",
    "batch_size",
    "from_spec",
    "instance_kinds",
    "load",
    "load_plugin",
    "policy_kinds",
    "run",
    "status",
    "to_spec",
]
