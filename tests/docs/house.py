"""How large the rooms are, counted from the source: python tests/docs/house.py [folder of a checkout].

Also how many files a call passes through: those of `adadim` in which a function is entered on the way, and how often
the file changes.
"""

import ast
import itertools
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parents[2]


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
    seen = {}
    for path in modules(source):
        for node in ast.parse(path.read_text()).body:
            names = [node.name] if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            for name in names:
                if not name.startswith("__"):
                    seen.setdefault(name, set()).add(path)
    return sorted(name for name, paths in seen.items() if len(paths) > 1)


def counted(root):
    """Sizes of a checkout by name."""
    source = Path(root) / "src" / "adadim"
    text = {path: path.read_text() for path in modules(source)}
    return {
        "lines of src": lines(source),
        "modules of src": len(text),
        "lines of models": lines(source / "models"),
        "classes of models": len(classes(source / "models")),
        "lines of agent": lines(source / "agent"),
        "public methods of Log": len(public_methods(source / "agent" / "log.py", "Log")),
        "files that say is_numpy": sum("is_numpy" in content for content in text.values()),
        "learner classes patched in by of=": sum(content.count(", of=") for content in text.values()),
        "names defined in several modules": len(repeated_names(source)),
    }


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
    import adadim

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
    return found


if __name__ == "__main__":
    for name, number in counted(sys.argv[1] if len(sys.argv) > 1 else HERE).items():
        print(f"{number:>7,}  {name}")
    if len(sys.argv) == 1:
        for name, (files, changes) in walks().items():
            print(f"{files:>7}  files passed by {name}, {changes} changes of file")
