"""What version 0.3 wrote into the names of results: fields of each policy and parameters of each generator it had.

They are written whatever their value, so that results stored by 0.3 are found. All other fields and parameters, those
of new classes and generators among them, are written where they differ from their default: nothing has to be added
here.
"""

from __future__ import annotations

_NAMES = {
    "ALBDim": "support dims first_phase delta ridge theta_norm scale",
    "ALBNorm": "pairs norm_bound first_epoch variant delta rho corrected scale",
    "BanditCombiner": "bases base ambient coefficients exponents targets weights constant z delta unplayed "
    "reward_scale",
    "BoundBalancing": "bases base ambient bound complexities beta delta c reward_scale",
    "Corral": "bases base ambient eta feedback loss_range",
    "D3RB": "bases base ambient d_min delta c reward_scale variant",
    "DynamicBalancing": "bases base ambient bound beta scalings biases delta c reference",
    "ED2RB": "bases base ambient d_min delta c reward_scale variant",
    "EmpMOSSPlusPlus": "beta scale ties",
    "EpochBalancing": "ambient ridge theta_norm arm_norm reward_bound scale delta c",
    "EvidenceLinUCB": "taper scale factor form ties",
    "Greedy": "ridge dim ties",
    "Guarded": "policy guard every delta",
    "LinTS": "ridge scale dim ties",
    "LinUCB": "ridge bonus dim radius scale theta_norm only_supported form ties",
    "LinUCBPlusPlus": "beta ridge bonus radius scale theta_norm expressive solver reuse form ties",
    "LinUCBPlusPlusCorral": "beta ridge bonus radius scale index feedback loss_range replay expressive ties",
    "LinearBound": "c",
    "MOSS": "sample scale ties",
    "MOSSPlusPlus": "beta scale ties",
    "MeDZO": "beta scale ties",
    "ModCB": "dims base test kappa exploration every delta ridge gamma floor c1 c2 tau gam experts loss_range",
    "OSOM": "model variant delta rho corrected theta_norm",
    "ParallelMOSS": "best_mean scale ties",
    "PowerBound": "c dim_power power",
    "PrefixLinUCB": "rule taper decay scale factor ties",
    "Random": "",
    "RegretBalancing": "bases base ambient bound reward_scale",
    "RegretBalancingLinear": "ridge dim radius scale theta_norm form ties",
    "ReleasedDynamicBalancing": "bases base ambient bound beta scalings biases delta c reference",
    "ReleasedLinUCB": "ridge bonus dim radius scale theta_norm only_supported form ties",
    "ReleasedLinUCBPlusPlus": "beta ridge bonus radius scale theta_norm expressive solver reuse form ties",
    "Single": "make",
    "SmoothCorral": "bases base ambient beta eta master tuning base_regret feedback loss_range replay",
    "SqrtBound": "c",
    "SqrtLogBound": "c least_log",
    "SupLinUCB": "ridge dim radius scale theta_norm form ties",
    "TaperedLinUCB": "taper ridge size bonus radius scale theta_norm form ties",
    "TsallisCorral": "bases base ambient eta penalty threshold first_plays feedback loss_range",
    "TwoPriorLinUCB": "taper decay odds scale factor ties",
    "UCB": "index delta scale ties",
    "UCBCorral": "bases base ambient copies bound complexities factor variant reward_scale",
}
RELEASED_FIELDS = {kind: names.split() for kind, names in _NAMES.items()}

# Values that mean something else than in 0.3: under which they are filed, so that neither finds the other's results.
RELEASED_VALUES = {("radius", "oful-2011"): "oful", ("radius", "oful"): "oful, root of the sum"}

_PARAMETERS = {
    "anisotropic": "arms dim intrinsic_dim horizon decay noise theta",
    "ball": "arms dim intrinsic_dim horizon noise theta expressive levels",
    "biased_arms": "arms dim horizon intrinsic_dim norm bias distribution noise",
    "choices": "data dim intrinsic_dim horizon",
    "clicks": "arms dim intrinsic_dim horizon theta",
    "contexts": "arms dim intrinsic_dim horizon noise distribution theta",
    "everyday": "distribution arms dim intrinsic_dim horizon first_relevant constant column per_round noise",
    "growing": "arms dim intrinsic_dim horizon initial_arms best noise theta",
    "interval": "arms horizon smoothness steepness top",
    "labelled": "data covariates intrinsic_dim horizon",
    "lower_bound": "horizon alpha alpha_easy budget delta target intrinsic_dim",
    "many_best": "arms horizon alpha share top others",
    "owned_arms": "best horizon owners",
    "pca": "data arms dim intrinsic_dim horizon noise kernel linear",
    "polynomials": "variables arms dim intrinsic_dim horizon noise theta",
    "powers": "arms dim intrinsic_dim horizon noise top",
    "products": "attributes arms dim intrinsic_dim horizon noise theta expressive levels",
    "ratings": "arms factors products reward horizon intrinsic_dim",
    "shared_contexts": "models dim horizon distribution largest relevant noise",
    "sphere": "arms dim intrinsic_dim horizon noise theta expressive levels",
    "sphere_rounds": "arms theta horizon noise noise_mean",
}
RELEASED_PARAMETERS = {kind: names.split() for kind, names in _PARAMETERS.items()}

# Names of parameters that 0.3 had otherwise, under which they are filed.
RELEASED_NAMES = {"distribution": "law", "initial_arms": "first", "first_relevant": "first"}
