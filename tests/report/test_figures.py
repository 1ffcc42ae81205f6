"""Figures: what they show is what was measured."""

import numpy as np
import polars as pl
import pytest
from drawn_studies import SPHERE, alphas, recomputed, small
from matplotlib.colors import to_hex

import adadim
from adadim import paper
from adadim.report import draw, save, summary
from adadim.study import StoreError, Study, load, run
from adadim.theory import hardness

STUDENT = 2.7764451  # 97.5% point of Student's t with four degrees of freedom: of five trials


def lines(axis):
    return {line.get_label(): line for line in axis.get_lines()}


def band(axis, policy):
    """Lower and upper edge of the shading in a policy's colour, by x."""
    colour = lines(axis)[policy].get_color()
    (patch,) = [c for c in axis.collections if to_hex(c.get_facecolor()[0]).upper() == colour.upper()]
    points = {}
    for x, y in patch.get_paths()[0].vertices:
        low, high = points.get(x, (y, y))
        points[x] = (min(low, y), max(high, y))
    return points


def test_curves_are_means_over_time_from_zero(curves):
    (axis,) = draw(curves).axes
    assert list(lines(axis)) == ["linucb", "mine", "greedy"]
    for policy, line in lines(axis).items():
        x, y = line.get_data()
        assert (x[0], y[0]) == (0, 0)
        assert x[1:].tolist() == [6 * i for i in range(1, 11)]
        assert y[1:].tolist() == pytest.approx([recomputed(curves, "easy", policy, t)[0] for t in x[1:]])
    assert axis.get_xlabel() == "round $t$"
    assert axis.get_ylabel() == "cumulative regret (reward units)"


@pytest.mark.parametrize("shading", ["ci", "std"])
def test_the_band_is_what_the_caption_says(curves, shading):
    figure = draw(curves, band=shading, title="A title")
    said = {"ci": "its 95% confidence interval", "std": "one standard deviation"}[shading]
    assert figure.get_suptitle().replace("\n", " ") == (
        f"A title K = 20, d = 6, d* = 2, T = 60, noise = 0.1 mean over 5 trials, shaded: {said}"
    )
    for policy in curves.policies:
        edges = band(figure.axes[0], policy)
        for time in (30, 60):
            mean, spread, error = recomputed(curves, "easy", policy, time)
            half = spread if shading == "std" else STUDENT * error
            assert edges[time] == pytest.approx((mean - half, mean + half))


@pytest.mark.parametrize("shading", ["ci", "std"])
def test_final_regret_against_alpha(against_alpha, shading):
    (axis,) = draw(against_alpha, band=shading).axes
    hard = [hardness(d, 60) for d in (2, 4, 6)]
    for policy, line in lines(axis).items():
        x, y = line.get_data()
        assert x.tolist() == pytest.approx(hard)
        expected = [recomputed(against_alpha, f"d{d}", policy, 40) for d in (2, 4, 6)]
        assert y.tolist() == pytest.approx([mean for mean, _, _ in expected])
        edges = band(axis, policy)
        for alpha, (mean, spread, error) in zip(hard, expected, strict=True):
            half = spread if shading == "std" else STUDENT * error
            assert edges[alpha] == pytest.approx((mean - half, mean + half))
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0.17\n(2)", "0.34\n(4)", "0.44\n(6)"]
    assert axis.get_xticks().tolist() == pytest.approx(hard)
    assert axis.get_ylabel() == "regret after 40 rounds (reward units)"
    assert r"\alpha" in axis.get_xlabel()


def test_one_trial_is_drawn_without_a_band(tmp_path):
    results = run(small(trials=1), tmp_path, jobs=1)
    for shading in ("ci", "std"):
        figure = draw(results, band=shading)
        assert figure.get_suptitle().endswith("\none trial")
        assert len(figure.axes[0].collections) == 0
        assert len(figure.axes[0].get_lines()) == 3
    table = summary(results)
    assert table["std"].to_list() == [0.0] * 30
    assert table["ci_low"].to_list() == table["mean"].to_list() == table["ci_high"].to_list()


def test_instances_that_differ_in_more_than_alpha_get_a_panel_each(tmp_path):
    instances = {"easy": SPHERE, "ball": {**SPHERE, "kind": "ball", "intrinsic_dim": 4}, "wide": {**SPHERE, "dim": 9}}
    results = run(small(instances=instances, trials=2), tmp_path, jobs=1)
    figure = draw(results)
    assert [axis.get_title() for axis in figure.axes] == ["easy", "ball", "wide"]
    for axis, instance in zip(figure.axes, instances, strict=True):
        assert lines(axis)["mine"].get_ydata()[-1] == pytest.approx(recomputed(results, instance, "mine", 60)[0])


def test_a_policy_that_runs_on_some_instances_only(tmp_path):
    # Otherwise the same but for d*: a line with holes would mislead, so panels it is.
    results = run(alphas(trials=2, only={"greedy": ["d2"]}), tmp_path, jobs=1)
    figure = draw(results)
    assert [axis.get_title() for axis in figure.axes] == ["d4", "d2", "d6"]
    assert [list(lines(axis)) for axis in figure.axes] == [
        ["linucb", "mine"],
        ["linucb", "mine", "greedy"],
        ["linucb", "mine"],
    ]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["linucb", "mine", "greedy"]
    assert summary(results).filter(pl.col("policy") == "greedy")["instance"].unique().to_list() == ["d2"]
    colours = {lines(axis)["linucb"].get_color() for axis in figure.axes}
    assert len(colours) == 1
    assert len({line.get_color() for line in lines(figure.axes[1]).values()}) == 3


def test_an_instance_without_policies_is_left_out(tmp_path):
    only = {policy: ["d2", "d4"] for policy in ("linucb", "mine", "greedy")}
    figure = draw(run(alphas(trials=2, only=only), tmp_path, jobs=1))
    assert [axis.get_title() for axis in figure.axes] == ["d4", "d2"]


def test_an_unfinished_study_is_drawn_as_far_as_it_is(tmp_path):
    run(alphas(trials=4), tmp_path, jobs=1, batch=2)
    plan = {(cell.instance, cell.policy): cell.id for cell in alphas().cells}
    for path in (tmp_path / "blocks").glob(f"{plan['d6', 'linucb']}-*.parquet"):
        path.unlink()
    next((tmp_path / "blocks").glob(f"{plan['d2', 'mine']}-000000-*.parquet")).unlink()
    results = load(tmp_path)
    figure = draw(results)
    assert "mean over 2 to 4 trials" in figure.get_suptitle().replace("\n", " ")
    assert len(lines(figure.axes[0])["linucb"].get_xdata()) == 2
    assert len(lines(figure.axes[0])["mine"].get_xdata()) == 3
    assert set(summary(results)["trials"]) == {2, 4}
    for path in (tmp_path / "blocks").glob("*.parquet"):
        path.unlink()
    with pytest.raises(StoreError, match=r"nothing is finished yet.*run the study first"):
        draw(load(tmp_path))


def test_instances_of_equal_alpha_or_without_one_are_drawn_over_time(tmp_path):
    twins = {"one": SPHERE, "two": SPHERE}
    assert len(draw(run(small(instances=twins, trials=2), tmp_path / "a", jobs=1)).axes) == 2
    short = {f"d{d}": {**SPHERE, "intrinsic_dim": d, "horizon": 1} for d in (1, 2)}  # ln T = 0
    assert len(draw(run(small(instances=short, trials=2), tmp_path / "b", jobs=1)).axes) == 2


def test_odd_names_are_drawn_as_they_are(tmp_path):
    policies = {r"$\odd": adadim.Random(), "_under": adadim.Greedy(), r"$\frac$": adadim.LinUCB()}
    instances = {r"$\frac$": SPHERE, "ball": {**SPHERE, "kind": "ball"}}
    results = run(small(name=r"$\name$", instances=instances, policies=policies, trials=1), tmp_path / "r", jobs=1)
    paths = save(draw(results, title=results.name), results, tmp_path / "odd")
    (legend,) = draw(results).legends
    assert [text.get_text() for text in legend.get_texts()] == list(policies)
    assert all(path.stat().st_size for path in paths)


@pytest.mark.parametrize("make", ["curves", "against_alpha"])
def test_the_legend_hides_nothing(make, request):
    results = request.getfixturevalue(make)
    figure = draw(
        results, title="a rather long title, of a study that says what it varies: arms=80, dim=40, horizon=400"
    )
    figure.draw_without_rendering()
    (legend,), (suptitle,) = figure.legends, figure.texts
    assert figure.bbox.x0 <= suptitle.get_window_extent().x0 < suptitle.get_window_extent().x1 <= figure.bbox.x1
    frame = legend.get_window_extent()
    assert not frame.overlaps(figure.axes[0].get_tightbbox())
    assert not frame.overlaps(suptitle.get_window_extent())
    assert figure.bbox.x0 <= frame.x0 < frame.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= frame.y0 < frame.y1 <= figure.bbox.y1
    assert figure.axes[0].get_legend() is None


def test_long_names_fit_below_the_picture(tmp_path):
    policies = {f"a policy with a rather long name, number {i}": adadim.Random() for i in range(4)}
    figure = draw(run(small(policies=policies, trials=1), tmp_path, jobs=1))
    figure.draw_without_rendering()
    frame = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= frame.x0 < frame.x1 <= figure.bbox.x1


def test_bad_bands_are_refused(curves):
    with pytest.raises(ValueError, match="band must be 'ci' or 'std', got 'sd'"):
        draw(curves, band="sd")


def test_text_is_large_enough_to_read(against_alpha):
    figure = draw(against_alpha)
    axis = figure.axes[0]
    texts = [axis.xaxis.label, axis.yaxis.label, *axis.get_xticklabels(), *figure.legends[0].get_texts()]
    assert min(text.get_fontsize() for text in texts) >= 8
    assert np.all(figure.get_size_inches() < (5.5, 4.5))  # the width of a page: nothing gets smaller when printed


def test_policies_are_called_what_the_labels_say(tmp_path):
    labels = paper.study("fig2a", trials=1).labels
    assert list(labels["policies"]) == list(paper.policies())
    policies = paper.policies(intrinsic_dim=2)
    figure = draw(run(small(policies=policies, trials=1, labels=labels), tmp_path / "a", jobs=1))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "LinUCB",
        "LinUCB Oracle",
        "LinUCB++",
        "LinUCB++ with Corral",
        "Smooth Corral",
        "Dynamic Balancing",
    ]
    odd = {"policies": {"linucb": 3, "mine": "My own"}}  # the reader's own labels may mean something else
    figure = draw(run(small(trials=1, labels=odd), tmp_path / "b", jobs=1))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["linucb", "My own", "greedy"]


def test_hundreds_of_instances_get_a_readable_number_of_panels(tmp_path):
    spheres = {
        f"i{i}": {"kind": "sphere", "arms": 3 + i, "dim": 3, "intrinsic_dim": 2, "horizon": 4} for i in range(60)
    }
    results = run(Study("many", spheres, {"random": {"kind": "Random"}}, trials=1), tmp_path, jobs=1)
    figure = draw(results)
    assert len([axis for axis in figure.axes if axis.axison]) == 36
    assert "the first 36 of 60 instances" in figure.get_suptitle().replace("\n", " ")
    assert summary(results)["instance"].n_unique() == 60
