"""The paper's experiments at a size that takes no time."""

from adadim import paper

HORIZON = 100


def shrink(monkeypatch):
    whole = paper.Figure.instances

    def instances(self):
        reduced = {"arms": 30, "dim": 12, "horizon": HORIZON}
        return {name: {**table, **reduced} for name, table in whole(self).items()}

    monkeypatch.setattr(paper.Figure, "instances", instances)
    monkeypatch.setattr(paper.Figure, "dims", property(lambda self: (3,) if self.curves else (2, 4, 6)))
