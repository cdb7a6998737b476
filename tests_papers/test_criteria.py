"""What the project promises over many seeds, by the experiments that measure it."""

import os
import statistics

import pytest

from partwise_papers.experiments import EXPERIMENTS
from partwise_papers.outcome import carry_out
from partwise_papers.registry import Setting

pytestmark = pytest.mark.slow
needs_data = pytest.mark.skipif(
    "PARTWISE_DATA" not in os.environ, reason="PARTWISE_DATA names no folder of real data"
)


def run(name):
    return carry_out(EXPERIMENTS, name, Setting(), raise_errors=True)["rows"]


def test_shapes():
    for row in run("shapes"):
        allowed = 19 if row["limit"] == 0.01 else 18
        assert row["seeds of 20 within limit"] >= allowed, row


def test_parts_of_faces():
    (row,) = run("faces_parts")
    assert row["seeds of 20 at 0.9 or more"] >= 18


@needs_data
def test_a_stream_of_digits_ends_where_the_batch_does():
    *_, last = run("streaming_mnist")
    assert last["above fit, %"] <= 1.0


@needs_data
def test_held_out_faces():
    key = "log-likelihood of a face"
    rows = {row["model"]: row[key] for row in run("cbcl_likelihood")}
    assert rows["MCVQ 6x10, default"] >= -333
    assert rows["MCVQ 6x10, default"] > rows["MCVQ 6x10, random start"]


@needs_data
def test_order_of_the_posteriors():
    rows = {row["posterior"]: row for row in run("jmlr_table4")}
    entropy = {name: row["entropy (bits)"] for name, row in rows.items()}
    assert entropy["tied"] < entropy["standard"] < entropy["factorised"]
    assert entropy["tied, 6x10"] < entropy["standard, 6x10"] < entropy["factorised, 6x10"]
    # Against the paper, the factorised posterior has less error than the others (see the page).
    error = {name: row["squared error"] for name, row in rows.items()}
    assert error["default settings"] < min(error["standard, 6x10"], error["tied, 6x10"])


@needs_data
def test_drawing_beats_the_tied_and_standard_posteriors():
    key = "log-likelihood of a face"
    rows = {row["inference"]: row[key] for row in run("cbcl_gibbs")}
    assert rows["Gibbs"] > max(rows["variational, standard"], rows["variational, tied"])


@needs_data
def test_intervals_cover_removed_cells():
    for row in run("coverage"):
        allowed = 3 if row["promised"] == 50 else 2
        assert row["promised"] - allowed <= row["least"], row
        assert row["most"] <= row["promised"] + allowed, row


def test_conditions_of_faces():
    rows = {row["labels"]: row["accuracy"] for row in run("faces_classes")}
    assert rows["all labels"] >= max(0.97, rows["best"] - 0.02)
    assert rows["5 % of labels"] >= rows["all labels"] - 0.02


def test_hybrids_of_faces():
    (row,) = run("thesis_fig4_3")
    assert row["seen as both"] >= 0.9


def test_clusters_of_faces():
    rows = {row["model"]: row["median Rand index"] for row in run("jmlr_table3")}
    assert rows["MCVQ 5x12"] >= 0.95


@needs_data
def test_mcfa_fills_removed_cells_better_than_neighbours():
    errors = {}
    for row in run("imputation"):
        errors.setdefault(row["data"], {})[row["method"].split()[0]] = row["RMSE"]
    assert len(errors) == 3
    for error in errors.values():
        assert error["MCFA"] < error["KNNImputer"]


@pytest.mark.parametrize("name", ["gvq_fig4", "gvq_fig5"])
def test_exact_association_is_never_beaten_and_belief_revision_at_rest_is_right(name):
    for row in run(name):
        assert row["trials where exact is beaten"] == 0, row
        assert row["of these right"] == row["BR at rest"], row
        assert row.get("without noise DBR wrong", 0) == 0, row


def test_planted_features():
    for row in run("gvq_planted"):
        assert 0.94 <= row["least error / noise"] <= row["largest error / noise"] <= 1.02, row
        assert row["rows without proof"] == row["steps in which the error rose"] == 0, row


@needs_data
def test_an_image_by_features_and_by_vectors():
    ours, plain, same = run("gvq_fig10")
    key = "size by the paper's count (kbit)"
    assert ours[key] < plain[key]
    assert plain["GVQ above (dB)"] >= 1.0
    assert same["file (kbit)"] >= ours["file (kbit)"]
    assert same["GVQ above (dB)"] >= 1.0


@needs_data
def test_sets_of_digits_are_pure():
    # The error does not ask for purity, and single seeds go down to 0.79.
    assert statistics.median(row["purity"] for row in run("gvq_fig8")) >= 0.85
