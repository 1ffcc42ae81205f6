"""Studies: what to run (`Study`), who runs it (`run`), and where the results are kept (`load`, `status`).

>>> import tempfile
>>> from adadim import study
>>> plan = study.Study(
...     name="small",
...     instances={"easy": {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}},
...     policies={"LinUCB": {"kind": "LinUCB"}, "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"}},
...     trials=3,
... )
>>> with tempfile.TemporaryDirectory() as folder:
...     results = study.run(plan, folder, jobs=1)
...     table = results.frame()
>>> table.columns
['instance', 'policy', 'replication', 'time', 'regret']
"""

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
