"""What is proved of each policy with the parameters that were run, and the assumption that fails where nothing is.

Each row quotes words of the policy's docstring that it rests on; the tests compare. A source has the number of its
theorem where that was looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["theorem", "unverified", "nothing"]

NO_PROOF = "LinUCB itself has no sqrt(dT) proof"
OWN_CHOICES = "its radius holds for pulls fixed beforehand, and it chooses them by their rewards"
BASES = "LinUCB, which is its base here, has no such proof"
OFUL = "Abbasi-Yadkori, Pál and Szepesvári 2011, Theorem 2"
ZHU = "Zhu and Nowak 2022"
RATE = "rate max(β, 1+α-β) for d\\* = T^α, Pareto optimal"


@dataclass(frozen=True)
class Guarantee:
    """What is proved of a policy as it is written here.

    `names` are those it has in the comparison, none if it is not run there. Where the verdict is "nothing", `fails` is
    the assumption of the nearest theorem that does not hold; `assumes` are those of the theorem.
    """

    policy: str
    verdict: Verdict
    says: str  # words of the docstring
    names: tuple[str, ...] = ()
    bound: str = ""
    source: str = ""
    assumes: str = ""
    fails: str = ""

    @property
    def kind(self) -> str:
        """Name of the class."""
        return self.policy.partition("(")[0]

    @property
    def label(self) -> str:
        """What stands in the column "proved"."""
        reason = self.fails or ", ".join(filter(None, (self.bound, self.source)))
        return f"{self.verdict}: {reason}" if reason else self.verdict


GUARANTEES = (
    Guarantee(
        "EvidenceLinUCB()",
        "nothing",
        "nothing is proved about its regret.",
        ("recommended", "evidence"),
        fails="θ is no draw from its prior, and the factor 0.35 on the radius was chosen by experiment",
    ),
    Guarantee(
        'EvidenceLinUCB(radius="evidence")',
        "theorem",
        "the regret is at most 2 max(D/2, b_T) sqrt(T sum_m gamma_m / ln 2)",
        bound="2 max(D/2, b_T) √(T Σ_m γ_m / ln 2) over the ridges m that the data chose",
        source="docstring of EvidenceLinUCB",
        assumes="Σ j^s θ_j² ≤ theta_norm² in the units of the columns, rewards linear in the features without a "
        "further constant, sub-Gaussian noise of known scale, rewards at once; arms that stay",
    ),
    Guarantee(
        "TwoPriorLinUCB()",
        "nothing",
        "Nothing is proved about its regret.",
        ("two-prior",),
        fails="as EvidenceLinUCB",
    ),
    Guarantee(
        "PrefixLinUCB()",
        "nothing",
        "Nothing is proved about its regret.",
        ("prefix", "prefix-thompson"),
        fails="as EvidenceLinUCB",
    ),
    Guarantee(
        "Guarded()",
        "nothing",
        "B(n) bound the expected regret of the guard on n rounds",
        ("Guarded",),
        fails="no B is proved for LinUCB++ with LinUCB inside, its guard by default; m B(T/m) + B(T) + O~(σ √(mT)) "
        "holds for any guard of regret B",
    ),
    Guarantee(
        'Guarded(guard=LinUCBPlusPlus(solver="suplinucb", ridge=1.0, radius="paper"))',
        "theorem",
        "whatever the policy does",
        bound="1 + √m times the guard's bound, whatever the policy does; m = 64",
        source=f"docstring of Guarded; {ZHU}, Theorem 3",
        assumes="arms that stay and are closed under truncation, sub-Gaussian noise of known scale, T",
    ),
    Guarantee(
        "Certified()",
        "theorem",
        "R_T <= C_T <= (mu + 1) B(T)",
        bound="(μ+1) B(T), B(T) = 2 max(D/2, b_T) √(T Γ_T / ln 2) of order d √T, whatever the policy does; μ = 1",
        source="docstring of Certified",
        assumes="rewards linear in the features without a further constant, ‖θ‖ ≤ theta_norm, sub-Gaussian noise of "
        "known scale or bounded rewards; any sets, no T",
    ),
    Guarantee(
        "LinMED()",
        "unverified",
        "unverified here: their conditions on delta and on the three weights could not be compared",
        bound="said to be O~(d √T), and O(d²/Δ ln² T ln ln T)",
        source="Balagopalan and Jun 2025",
        assumes="norms at most 1, sub-Gaussian noise of known scale, ‖θ‖ ≤ theta_norm; any sets",
    ),
    Guarantee(
        "PriorThompson()",
        "unverified",
        "announce a sublinear one, unverified here",
        bound="said to have sublinear Bayesian regret",
        source="Sandberg and Haghir Chehreghani 2025",
        assumes="theta drawn from the priors by their weights, Gaussian noise of known scale; any sets",
    ),
    Guarantee(
        "PriorElimination()",
        "unverified",
        "announce regret bounds; the constants of their tests could not be",
        bound="a right prior is dropped with probability 3δ at most; regret bounds are said to follow",
        source="Ziomek, Adachi and Osborne; Sandberg and Haghir Chehreghani 2025",
        assumes="theta drawn from one of the priors, Gaussian noise of known scale; any sets",
    ),
    Guarantee(
        "PriorBalancing()",
        "nothing",
        "Nothing is proved for it here",
        fails="Ziomek et al. 2024 is for length scales of a kernel, and its bounds are for another radius",
    ),
    Guarantee(
        "FeelGood()",
        "unverified",
        "by order sqrt(min(K, d) T ln(1/p))",
        bound="said to be O~(√(min(K, d) d* T)) for every d* at once",
        source="Zhang 2022",
        assumes="bounded rewards and other constants than the defaults; arms that stay, or particles",
    ),
    Guarantee(
        "MaxRatio()",
        "theorem",
        "Regret is at most max(D, max(threshold, 2) beta_T) sqrt(T gamma_T / ln 2) with probability 1 - delta",
        bound="max(D, max(μ_max, 2) β_T) √(T γ_T / ln 2) of order d √T; μ_max = 10",
        source="docstring of MaxRatio",
        assumes="rewards linear in the features without a further constant, ‖θ‖ ≤ theta_norm, sub-Gaussian noise of "
        "known scale, T, rewards at once; any sets",
    ),
    Guarantee(
        "RadiusMixture()",
        "theorem",
        "If there is one, the expected regret is at most",
        bound="√(T Γ / ln 2) [max(D, 2β_o) + max(D, β_o)/q_o + 2 Σ_{i≥o} max(D/2, β_i) √q_i] + D (t_0 + δT) in "
        "expectation",
        source="docstring of RadiusMixture",
        assumes="a radius o of the ladder reaches the confidence radius from round t_0 on, rewards linear in the "
        "features without a further constant, sub-Gaussian noise of known scale, rewards at once; any sets, no T",
    ),
    Guarantee(
        "RadiusExp3()",
        "nothing",
        "It says nothing for q_0 = 0, the default here",
        fails="the widest radius may never be used: q_0 = 0, as in all released runs",
    ),
    Guarantee(
        "RadiusExp3(explore=0.1)",
        "theorem",
        "Then whatever the weights do the expected",
        bound="√(T Γ / ln 2) [max(D, 2β) + max(D, β)/q_0] + D (t_0 + δT) in expectation; q_0 = 0.1",
        source="docstring of RadiusExp3",
        assumes="the widest radius of the ladder reaches the confidence radius from round t_0 on, and as RadiusMixture",
    ),
    Guarantee(
        "ALEXP()",
        "unverified",
        "announce regret of\norder sqrt(T ln(M)^3) + T^(3/4) sqrt(ln M)",
        bound="said to be of order √(T ln³ M) + T^(3/4) √(ln M) with M models",
        source="Kassraie, Emmenegger, Krause and Pacchiano 2023",
        assumes="penalty=1 in the place of 0.009, arms of which a uniform draw explores all directions, rewards linear "
        "in the features of one of the models, sub-Gaussian noise of known scale; arms that stay, no T",
    ),
    Guarantee(
        "IDS()",
        "unverified",
        'bound the Bayesian regret of\n"bayes" by sqrt(G T H)',
        bound="said to have Bayesian regret √(G T H), H the entropy of the best arm, G of order d",
        source="Russo and Van Roy 2018",
        assumes="theta drawn from N(0, σ²/λ I), Gaussian noise of known scale, draws without end; arms that stay, no T",
    ),
    Guarantee(
        "TaperedLinUCB()",
        "nothing",
        '``radius="oful"`` uses exactly those',
        ("tapered",),
        fails='the bound is for radius="oful"; "noise" holds for pulls fixed beforehand',
    ),
    Guarantee(
        'TaperedLinUCB(radius="oful")',
        "theorem",
        "the bounds of LinUCB hold with the effective dimension",
        bound="2 max(1, b_T) √(T γ_T / ln 2)",
        source=f"[bounds](bounds.md#the-bound-of-taperedlinucb); {OFUL}",
        assumes="Σ j^s θ_j² ≤ theta_norm², norms at most 1, sub-Gaussian noise of known scale",
    ),
    Guarantee(
        "LinUCB()",
        "nothing",
        NO_PROOF,
        ("linucb", "oracle", "narrow-oracle", "oracle-released"),
        fails=OWN_CHOICES,
    ),
    Guarantee(
        'LinUCB(radius="oful")',
        "theorem",
        "gives O~(d sqrt(T)) for rewards linear in the features used",
        bound="O~(d √T)",
        source=OFUL,
        assumes="rewards linear in the features used, norms at most 1, sub-Gaussian noise of known scale; any sets",
    ),
    Guarantee(
        "SupLinUCB()",
        "theorem",
        "the regret is O(sqrt(T d ln^3(K T ln T / delta)))",
        ("suplinucb",),
        bound="O~(√(dT))",
        source="Chu, Li, Reyzin and Schapire 2011",
        assumes="rewards linear in the features used, norms at most 1, sets that do not depend on past rewards, "
        "σ and T known",
    ),
    Guarantee(
        "LinTS()",
        "nothing",
        "for a scale of order sqrt(d ln T), which is far too wide in practice",
        ("lints",),
        fails="Agrawal and Goyal's bound needs a scale of order √(d ln T), and 1 was run; with 1 the regret averaged "
        "over the prior is O~(d √T) (Russo and Van Roy 2014)",
    ),
    Guarantee("Greedy()", "nothing", "no sublinear guarantee", ("greedy",), fails="regret can be linear"),
    Guarantee("Random()", "nothing", "The floor that every learner should beat", ("random",), fails="regret is linear"),
    Guarantee(
        "LinUCBPlusPlus()",
        "nothing",
        'the theorem is about "suplinucb"',
        ("linucb++", "linucb++released"),
        fails=f"{ZHU}, Theorem 3, needs SupLinUCB inside and arms closed under truncation",
    ),
    Guarantee(
        'LinUCBPlusPlus(solver="suplinucb", ridge=1.0, radius="paper")',
        "theorem",
        "Guarantee (Theorems 3 and 4 of the paper)",
        bound=RATE,
        source=f"{ZHU}, Theorems 3 and 4",
        assumes="arms closed under truncation, norms at most 1, sub-Gaussian noise of known scale, T",
    ),
    Guarantee(
        "LinUCBPlusPlus(reuse=True)",
        "nothing",
        "With ``reuse=True`` nothing is proved",
        ("linucb++reuse",),
        fails="data of an iteration were chosen by earlier ones",
    ),
    Guarantee(
        "LinUCBPlusPlusCorral()",
        "nothing",
        "Theorem 5 of the paper",
        ("linucb++corral",),
        fails=f"{ZHU}, Theorem 5, needs a base of regret O~(√(d_i t)); {BASES}",
    ),
    Guarantee(
        "SmoothCorral()",
        "nothing",
        "With bases whose regret is O~(sqrt(d_i t)) with high probability",
        ("smooth-corral",),
        fails=f"Pacchiano et al. 2020 and {ZHU}, appendix C, need bases of regret O~(√(d_i t)); {BASES}",
    ),
    Guarantee(
        'Corral(feedback="stochastic")',
        "nothing",
        '``feedback="stochastic"`` (no guarantee)',
        ("corral",),
        fails='Agarwal et al. 2017 need feedback="importance" and bases that are stable under it',
    ),
    Guarantee(
        'Corral(feedback="importance")',
        "theorem",
        "Against a base whose regret under importance weights grows by at most a factor rho",
        bound="O~(√(MT) + M R(T))",
        source="Agarwal, Luo, Neyshabur and Schapire 2017",
        assumes="bases stable under importance weights, which LinUCB is not known to be; eta set by R(T); any sets",
    ),
    Guarantee(
        'TsallisCorral(feedback="stochastic")',
        "nothing",
        'nothing is proved for that nor for "stochastic"',
        ("tsallis-corral",),
        fails='Arora, Marinov and Mohri 2021 need feedback="importance", stable bases, and restarts of them',
    ),
    Guarantee(
        "UCBCorral()",
        "nothing",
        "Known beforehand: the bounds",
        ("ucb-corral",),
        fails=f"Arora, Marinov and Mohri 2021, Theorem 4.2, needs bounds that hold for every base; {BASES}",
    ),
    Guarantee(
        "DynamicBalancing()",
        "nothing",
        "With correct bounds",
        ("dynamic-balancing",),
        fails=f"Cutkosky et al. 2021 need candidate bounds that hold, O~(√(d_i n)); {BASES}",
    ),
    Guarantee(
        "BoundBalancing()",
        "nothing",
        "Proved for bounds d_i C n^b, B of them false and * any true one",
        ("bound-balancing",),
        fails=f"Pacchiano, Dann, Gentile and Bartlett 2020 need one candidate bound that holds; {BASES}",
    ),
    Guarantee(
        "RegretBalancing()",
        "nothing",
        "If U bounds the regret of the best base at all times",
        ("regret-balancing",),
        fails="Abbasi-Yadkori, Pacchiano and Phan 2020 need U to bound the regret of the best base, and U = √n times "
        "the reward scale, which was run, is proved for none",
    ),
    Guarantee(
        "RegretBalancingLinear()",
        "theorem",
        "Regret O~(d^(3/2) sqrt(T))",
        ("regret-balancing-linear",),
        bound="O~(d^(3/2) √T)",
        source="Abbasi-Yadkori, Pacchiano and Phan 2020",
        assumes="rewards linear in all d features, norms at most 1, sub-Gaussian noise of known scale",
    ),
    Guarantee(
        "D3RB()",
        "theorem",
        "d being the least realised coefficient",
        ("d3rb",),
        bound="O~(d M √T + d² √(MT)), d the least coefficient realised",
        source="Pacchiano, Dann and Gentile 2024",
        assumes="d_min ≥ 1, fixed or i.i.d. sets, the scale of the rewards known; nothing is asked of the bases, and "
        "nothing is proved of the d that LinUCB realises",
    ),
    Guarantee(
        "ED2RB()",
        "theorem",
        "The guarantee is that of `D3RB`",
        ("ed2rb",),
        bound="as D3RB, d at the end",
        source="Pacchiano, Dann and Gentile 2024",
        assumes="as D3RB",
    ),
    Guarantee(
        'D3RB(variant="released")',
        "nothing",
        "nothing is proved of it",
        fails="another width, and sums divided by √n in the test",
    ),
    Guarantee(
        'BanditCombiner(targets="plain")',
        "nothing",
        '"plain" is C_i T^(a_i), without a guarantee',
        ("bandit-combiner",),
        fails='the bound 3 R_j is for targets="theory" and bases that keep their promise',
    ),
    Guarantee(
        'BanditCombiner(targets="theory")',
        "unverified",
        "Unverified against the source: the factor 3",
        bound="said to be 3 R_j for a base that keeps its promise",
        source="Cutkosky, Das and Purohit 2020",
        assumes="promises known beforehand, fixed or i.i.d. sets",
    ),
    Guarantee(
        "EpochBalancing()",
        "theorem",
        "whatever the sets are, B being the number of classes that are too small",
        ("epoch-balancing",),
        bound="O~((√B d\\* + √B M) d\\* √T)",
        source="Pacchiano, Dann, Gentile and Bartlett 2020, section 7",
        assumes="norms at most 1, known σ and T; the source leaves the constant of its test open, and 1 was run",
    ),
    Guarantee(
        "ModCB()",
        "nothing",
        "For i.i.d. sets whose arm-averaged second moment is at least gam, and the theory's base and test",
        ("modcb",),
        fails='Foster, Krishnamurthy and Luo 2019 need base="exp4-ix", test="theory" and i.i.d. sets',
    ),
    Guarantee(
        "OSOM()",
        "nothing",
        "A fixed set meets none of these assumptions",
        ("osom",),
        fails='Chatterji, Muthukumar and Bartlett 2020 need variant="ball" and fresh sets of mean zero',
    ),
    Guarantee(
        "ALBDim()",
        "nothing",
        "with SupLinUCB inside; here OFUL plays",
        ("alb-dim",),
        fails="Ghosh, Sankararaman and Ramchandran 2021 need SupLinUCB inside, i.i.d. sets and a first phase of some "
        "10⁸ rounds",
    ),
    Guarantee(
        "ALBNorm()",
        "nothing",
        "A fixed set meets none of these assumptions",
        ("alb-norm",),
        fails='Ghosh, Sankararaman and Ramchandran 2021 need variant="ball", fresh sets and epochs of some 10⁹ rounds',
    ),
    Guarantee(
        "UCB()",
        "theorem",
        "Regret O(sqrt(K T ln T)) for sub-Gaussian noise",
        ("ucb",),
        bound="O(√(KT ln T))",
        source="Auer, Cesa-Bianchi and Fischer 2002, for rewards in [0, 1] and their index",
        assumes="arms that stay, sub-Gaussian noise of known scale; features are ignored",
    ),
    Guarantee(
        "MOSS()",
        "theorem",
        "Regret O(sqrt(KT)) over the arms in play, for sub-Gaussian noise of known scale",
        ("moss",),
        bound="O(√(KT))",
        source="Audibert and Bubeck 2009",
        assumes="arms that stay, sub-Gaussian noise of known scale, T; features are ignored",
    ),
    Guarantee(
        "MOSSPlusPlus()",
        "unverified",
        "is unverified, and so is whether the theorem samples with replacement",
        ("moss++",),
        bound="T^max(β, 1+α-β) up to logarithms, n/m ≤ 2 T^α",
        source="Zhu and Nowak 2020",
        assumes="sub-Gaussian noise of known scale, T; the theorem may be about samples with replacement, here without",
    ),
    Guarantee(
        "EmpMOSSPlusPlus()",
        "nothing",
        "No guarantee.",
        ("emp-moss++",),
        fails="it keeps the better half of the arms by their rewards, which no theorem covers",
    ),
    Guarantee(
        "ParallelMOSS(best_mean=μ*)",
        "unverified",
        "which is unverified",
        bound="said to lose only logarithms against the best sample size",
        source="Zhu and Nowak 2020",
        assumes="μ\\*, T and the scale of the noise known; with another best_mean nothing",
    ),
    Guarantee(
        "MeDZO()",
        "unverified",
        "Everything but the form of the schedule is unverified",
        ("medzo",),
        bound="for Hölder means, all smoothnesses at once",
        source="Hadiji 2019",
        assumes="arms in the order of a smooth function on [0, 1], T",
    ),
)

BY_NAME = {name: row for row in GUARANTEES for name in row.names}
