"""When the model of an agent of clicks is fitted, and which fit it uses: a function of the rewards in their order.

A fit is due at a row of the log (`Told.due`): it is the MAP by the rewards up to there. Early ones take effect at once.
From `WAITS_FROM` rewards on a fit takes effect a little later, so that it can be made in the meantime, off the path of
the decisions (`Agent.refresh`); a decision that finds it missing makes it. It waits for a twentieth more rewards, or
twice as many as there are of the rarer kind if these are fewer: the first clicks in thousands are not kept waiting.

With a half-life that the data find, what counts can change at a row: another half-life is used, or one that has begun
again. A fit is due there at once, and from there on rewards are counted from the effective number of those that count
(`Recount`). Otherwise the next fit after a change of the world would wait for half as many rewards as there ever were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from adadim.agent.reading import Entries
from adadim.models.likelihoods import ExpandedLikelihood, Told

WAITS_FROM = 200  # rewards; a fit to fewer takes some milliseconds
WAITS, WAITS_BY_RARER = 20, 2


class Recount(NamedTuple):
    """What counts from a row on, where another half-life was chosen: the effective number of rewards, and their sum."""

    row: int
    number: float
    total: float


class DueFit(NamedTuple):
    """A fit by the rewards up to a row."""

    row: int = 0
    told: Told = Told()  # as of the row

    @property
    def takes_effect(self) -> int:
        """The number of rewards at which it takes effect."""
        number, rarer = self.told.number, int(self.told.rarer)
        return number + (min(number // WAITS, WAITS_BY_RARER * rarer) if number >= WAITS_FROM else 0)


NOTHING_TOLD, NO_FIT = Told(), DueFit()


@dataclass(frozen=True)
class FitSchedule:
    """What was told so far, and the fits that were due: the one in use, and those that have not taken effect yet."""

    told: Told = NOTHING_TOLD
    row: int = 0  # of the last reward
    used: DueFit = NO_FIT
    ahead: tuple[DueFit, ...] = ()

    def after(self, entries: Entries, likelihood: ExpandedLikelihood, recount: Recount | None = None) -> FitSchedule:
        """The same after further rewards; those that are counted already are left out.

        `recount` is the last one at any of these rewards; it settles what came before.
        """
        if recount is not None:
            number = round(recount.number)
            told = Told(number, recount.total, float(likelihood.rarer(recount.total, number)))
            return FitSchedule(told, recount.row, DueFit(recount.row, told)).after(entries, likelihood)
        news = entries.after(self.row)
        if not len(news.rows):
            return self
        told, due = self.told.after(likelihood, news.rewards, news.replaced)
        used, ahead = self.used, []
        for fit in (*self.ahead, *(DueFit(int(news.rows[at]), then) for at, then in due)):
            if fit.takes_effect <= told.number:
                used = fit
            else:
                ahead.append(fit)
        return FitSchedule(told, news.last, used, tuple(ahead))


NOTHING_SCHEDULED = FitSchedule()
