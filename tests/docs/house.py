"""How large the packages are, counted from the source: python tests/docs/house.py [commit or folder of a checkout ...].

A column for each commit or folder, by default for this checkout. Also how many files a call passes through: those of
`adadim` in which a function is entered on the way, and how often the file changes.
"""

import ast
import contextlib
import importlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[2]

TIES = {"argmax", "positions_of_largest", "tied_for_first"}  # of core/ties.py: what picks the largest of several scores
REGRESSION_BASES = {"Regression", "CountsOpenPulls"}  # since version 0.4, and before
NOT_PRIVATE = {"_replace", "_fields", "_make", "_asdict", "_repr_html_", "_repr_png_", "_exit", "_getframe"}
REGRESSION_NAME = re.compile(r"Regression$|Posterior$|^Lanes$")  # those that stand alone


# Names that several modules define because these have the same part in a family: in which of them, which, and why.
SHARED_NAMES = (
    ("*", {"P", "T"}, "type variables of the module's own functions"),
    (
        "cli/*",
        {"claims", "dimension", "evaluate", "frontier", "lower_bound", "parameter", "run", "status", "study"},
        "a command is called as the function it runs or the module it writes with",
    ),
    ("cli/*", {"Batch", "Name", "Plugins", "Trials"}, "the type of an option is called as what it sets"),
    (
        "serve/messages.py",
        {"Arm", "Batch", "Catalogue", "Column", "Dimension", "Estimate", "Name", "Reward", "Status"},
        "a message is called as what it carries over HTTP, or the path it is for",
    ),
    (
        "agent/postgres.py",
        {"CATEGORIES", "EXPLORATION", "LOG", "SLATES", "STEPS", "_migrate"},
        "the same step of the tables in the other database",
    ),
    ("core/triton_kernels.py", {"log_barrier_round"}, "the kernel of the function of this name"),
    ("experiments/*/plan.py", {"EXPERIMENT", "policies", "study"}, "each experiment has its policies and its study"),
    ("experiments/*/analysis.py", {"frontier"}, "the table of what theory.py has as a function"),
    ("policies/loading.py", {"load"}, "adadim.load reads a learner, adadim.study.load results"),
)


def modules(folder):
    return sorted(Path(folder).rglob("*.py"))


def lines(folder):
    return sum(len(path.read_text().splitlines()) for path in modules(folder))


def classes(folder):
    return [
        node for path in modules(folder) for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)
    ]


def public_methods(path, name):
    (found,) = [node for node in ast.parse(path.read_text()).body if getattr(node, "name", None) == name]
    return [node.name for node in found.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def repeated_names(source):
    """Top-level names that more than one module defines."""
    return sorted(name for name, paths in definitions(source).items() if len(paths) > 1)


def homonyms(source):
    """Top-level names that more than one module defines, but for those of `SHARED_NAMES`."""
    found = []
    for name, paths in definitions(source).items():
        patterns = [pattern for pattern, names, _ in SHARED_NAMES if name in names]
        others = [path for path in paths if not any(path.relative_to(source).match(pattern) for pattern in patterns)]
        if len(others) > 1:
            found.append(name)
    return sorted(found)


def definitions(source):
    """Modules that define a top-level name, by name."""
    seen = {}
    for path in modules(source):
        for node in ast.parse(path.read_text()).body:
            names = [node.name] if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                names += [part.id for part in parts if isinstance(part, ast.Name)]
            for name in names:
                if not name.startswith("__"):
                    seen.setdefault(name, set()).add(path)
    return seen


def regressions(source):
    """Names of the classes that keep the state of a ridge regression, without those that others complete."""
    found = {}
    for path in modules(source):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = node

    def bases(name):
        direct = [base.id for base in found[name].bases if isinstance(base, ast.Name)] if name in found else []
        return {name, *(each for base in direct for each in bases(base))}

    def missing(name):
        """Abstract methods of a class that nothing on the way down defines."""
        node = found.get(name)
        if node is None:
            return set()
        inherited = set().union(*(missing(base.id) for base in node.bases if isinstance(base, ast.Name)), set())
        own = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
        abstract = {key for key, part in own.items() if "abstractmethod" in map(_decorator, part.decorator_list)}
        return inherited - set(own) | abstract

    concerned = {name for name in found if bases(name) & REGRESSION_BASES or REGRESSION_NAME.search(name)}
    return sorted(name for name in concerned if not missing(name) and "Protocol" not in bases(name))


def _decorator(node):
    return getattr(node, "id", getattr(node, "attr", ""))


def pickers(source):
    """Functions that pick the largest of several scores, ties resolved: `module:function`."""
    found = set()
    for path in modules(source):
        tree = ast.parse(path.read_text())
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "adadim.core.ties"
            for alias in node.names
        }
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            called = {node.func.id for node in ast.walk(function) if _is_plain_call(node)}
            if called & imported & TIES:
                found.add(f"{path.relative_to(source)}:{function.name}")
    return sorted(found)


def _is_plain_call(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def private_accesses(tests):
    """Accesses of tests to private names: `file:line: text`. Not what Python or notebooks define, nor a test's own."""
    found = []
    for path in modules(tests):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
                owner = ast.unparse(node.value)
                if owner not in ("self", "cls", "super()") and node.attr not in NOT_PRIVATE:
                    found.append(f"{path.relative_to(tests)}:{node.lineno}: {owner}.{node.attr}")
    return sorted(found)


def counted(root):
    """Sizes of a checkout by name."""
    source = Path(root) / "src" / "adadim"
    text = {path: path.read_text() for path in modules(source)}
    return {
        "lines of src": lines(source),
        "modules of src": len(text),
        "lines of models": lines(source / "models"),
        "classes of models": len(classes(source / "models")),
        "regressions that keep state": len(regressions(source)),
        "functions that pick the largest score": len(pickers(source)),
        "lines of agent": lines(source / "agent"),
        "public methods of Log": len(public_methods(source / "agent" / "log.py", "Log")),
        "files that say is_numpy": sum("is_numpy" in content for content in text.values()),
        "learner classes patched in by of=": sum(content.count(", of=") for content in text.values()),
        "names defined in several modules": len(repeated_names(source)),
        "of these, names without a shared part": len(homonyms(source)),
        "accesses of tests to private names": len(private_accesses(Path(root) / "tests")),
    }


def docstring_lines(path):
    """Lines of the docstrings of a module."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]
    first = [node.body[0] for node in nodes if ast.get_docstring(node) is not None]
    return sum(node.end_lineno - node.lineno + 1 for node in first)


def by_module(root, packages=("models", "agent")):
    """Lines of each module, and lines of docstrings among them, and of all modules of a package together."""
    source, found = Path(root) / "src" / "adadim", {}
    for package in packages:
        each = {str(path.relative_to(source)): path for path in modules(source / package)}
        counts = {name: (len(path.read_text().splitlines()), docstring_lines(path)) for name, path in each.items()}
        found |= counts | {package: tuple(map(sum, zip(*counts.values(), strict=True)))}
    return found


def walked(call):
    """Files of adadim passed by a call, and changes of file."""
    passed = []

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and f"{os.sep}adadim{os.sep}" in name and "<" not in frame.f_code.co_name:
            passed.append(name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(set(passed)), sum(a != b for a, b in itertools.pairwise(passed))


def walks():
    """Files passed and changes of file of the calls that users make most."""
    adadim, np = (importlib.import_module(name) for name in ("adadim", "numpy"))

    problem = adadim.Problem(np.eye(8)[:5], horizon=100, noise=0.1)
    learner = adadim.LinUCB().start(problem)
    learner.update(learner.select(), 0.3)
    arms = []
    found = {"LinUCB.select": walked(lambda: arms.append(learner.select()))}
    found["LinUCB.update"] = walked(lambda: learner.update(arms[0], 0.2))
    with tempfile.TemporaryDirectory() as folder:
        agent = adadim.Agent.create(Path(folder, "agent.db"), context=2, arm=3)
        agent.set_arms({f"arm {k}": row for k, row in enumerate(np.random.default_rng(0).normal(size=(5, 3)))})
        for _ in range(3):
            agent.tell(agent.ask(context=[0.1, 0.2]).id, 0.5)
        found["Agent.ask"] = walked(lambda: agent.ask(context=[0.3, 0.1]))
        agent.close()
    return {
        f"{unit} by {call}": number
        for call, numbers in found.items()
        for unit, number in zip(("files passed", "changes of file"), numbers, strict=True)
    }


def walks_of(root):
    """As `walks`, in a process of its own that imports the source of a checkout."""
    if not (Path(root) / "src" / "adadim" / "__init__.py").exists():
        return {}
    environment = {**os.environ, "PYTHONPATH": str(Path(root, "src").resolve())}
    command = [sys.executable, __file__, "--walks"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout)


@contextlib.contextmanager
def checkout(name):
    """The folder of this name, or the files of a commit in a folder that is removed afterwards."""
    if Path(name).is_dir():
        yield Path(name)
        return
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", name, "src", "tests"], cwd=HERE, capture_output=True, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


if __name__ == "__main__":
    if sys.argv[1:] == ["--walks"]:
        print(json.dumps(walks()))
    else:
        columns, per_module = [], sys.argv[1:2] == ["--modules"]
        for each in sys.argv[1 + per_module :] or [HERE]:
            with checkout(each) as root:
                columns.append(by_module(root) if per_module else {**counted(root), **walks_of(root)})
        names = sorted({name for column in columns for name in column}) if per_module else columns[-1]
        for name in names:
            cells = [column.get(name, ()) for column in columns]
            cells = [cell if isinstance(cell, tuple) else (cell,) for cell in cells]
            shown = [" ".join([f"{n:,}" for n in cell[:1]] + [f"({n})" for n in cell[1:]]) for cell in cells]
            print("".join(f"{cell:>{13 if per_module else 9}}" for cell in shown), name, sep="  ")
