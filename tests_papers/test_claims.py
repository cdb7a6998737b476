"""Each claim of a paper can hold and can fail; rows are made up."""

import pytest

from partwise_papers.experiments import EXPERIMENTS


def rows(measure, key="model", **values):
    return [{key: name.replace("_", " "), measure: value} for name, value in values.items()]


def named(measure, values, key="model"):
    return [{key: name, measure: value} for name, value in values.items()]


def curves(over, at, **errors):
    """Curves of methods, as `gvq_fig4` prints them."""
    return [
        {"over": over, "at": x, **{name: f"{error[i]} ± 0.01" for name, error in errors.items()}}
        for i, x in enumerate(at)
    ]


def faces(ours, other):
    rivals = ("MCVQ 6x10", "probabilistic PCA, 3", "Gaussian, diagonal", "MCFA 6x3", "MCFA 6x4")
    found = dict.fromkeys((*rivals, "CVQ 6x10"), 0.7)
    mixtures = {"mixture of 60 Gaussians": other, "mixture of 84 Gaussians": 0.75}
    return named("accuracy", {"MCVQ 6x14": ours, **found, **mixtures})


def shapes(right):
    """Errors of MCVQ by its size, of which 3x12 is the right one."""
    others = dict.fromkeys(("MCVQ 2x18", "MCVQ 4x9", "MCVQ 8x4", "MCVQ 6x6"), 0.2)
    return named("RMS", {"MCVQ 3x12": right, **others})


def ratings(gain):
    gains = {f"{name} gains": gain for name in ("MCVQ 8x6", "MCVQ 8x6, 12 classes")}
    return [{"known ratings": 1, **dict.fromkeys(gains, 0.1)}, {"known ratings": 5, **gains}]


def films(all_of_them, wars):
    titles = ("Star Wars: Episode IV", "Star Trek V")
    return [
        {"film": title, "likes all": like, "likes none": -1.0, "Star Wars alone": alone}
        for title, like, alone in zip(titles, (1.0, all_of_them), (wars, -0.5), strict=True)
    ]


ERRORS = "squared error"
# Experiment, place of the claim, rows that it holds of, rows that it does not hold of.
CASES = [
    ("jmlr_table1", 0, faces(0.9, 0.8), faces(0.75, 0.8)),
    ("jmlr_table1", 1, faces(0.9, 0.8), faces(0.9, 0.74)),
    ("jmlr_table1", 2, faces(0.9, 0.8), faces(0.6, 0.8)),
    (
        "jmlr_pca", 0,
        named("accuracy", {"probabilistic PCA, 3": 0.8, "probabilistic PCA, 1": 0.7}),
        named("accuracy", {"probabilistic PCA, 3": 0.8, "probabilistic PCA, 1": 0.9}),
    ),
    (
        "jmlr_table4", 1,
        rows(ERRORS, "posterior", standard=1.0, tied=2.0, factorised=3.0),
        rows(ERRORS, "posterior", standard=1.0, tied=4.0, factorised=3.0),
    ),
    ("nips_fig6", 0, ratings(0.1), ratings(-0.1)),
    ("nips_fig6", 1, ratings(0.1), ratings(-0.1)),
    ("jmlr_fig8", 0, films(0.5, 0.5), films(-0.5, 0.5)),
    ("jmlr_fig8", 1, films(0.5, 0.5), films(0.5, -0.1)),
    (
        "cbcl_gibbs", 0,
        named("log-likelihood of a face", {
            "Gibbs": -1.0, "variational, standard": -2.0, "variational, tied": -3.0,
        }, "inference"),
        named("log-likelihood of a face", {
            "Gibbs": -2.5, "variational, standard": -2.0, "variational, tied": -3.0,
        }, "inference"),
    ),
    (
        "jmlr_fig3", 0,
        [{"pixels with a gate above 0.9 (%)": 99.0}], [{"pixels with a gate above 0.9 (%)": 50.0}],
    ),
    (
        "nips_fig2", 0,
        rows("parts agree (Rand)", **{"MCVQ 3x5": 1.0}),
        rows("parts agree (Rand)", **{"MCVQ 3x5": 0.5}),
    ),
    ("thesis_table3_1", 0, shapes(0.1), shapes(0.3)),
    (
        "nips_annealing", 0,
        rows("found (%)", without_annealing=0.0), rows("found (%)", without_annealing=80.0),
    ),
    (
        "nips_annealing", 1,
        rows("found (%)", annealed_linearly=80.0), rows("found (%)", annealed_linearly=10.0),
    ),
    (
        "thesis_fig5_1", 0,
        [{"model": "conventional posterior, random start", "entropy (bits)": 1.5,
          "parts agree (Rand)": 0.1}],
        [{"model": "conventional posterior, random start", "entropy (bits)": 0.1,
          "parts agree (Rand)": 0.1}],
    ),
    (
        "bpca_fig7", 0,
        [{"model": "seeds in which the mixture is above", "of the paper's protocol": 6,
          "seeds": 6}],
        [{"model": "seeds in which the mixture is above", "of the paper's protocol": 5,
          "seeds": 6}],
    ),
    (
        "bpca_fig7", 1,
        named("area, CBCL's test set", {"mixture of Bayesian PCA": 0.9, "PCA, 3 directions": 0.8}),
        named("area, CBCL's test set", {"mixture of Bayesian PCA": 0.7, "PCA, 3 directions": 0.8}),
    ),
    (
        "gvq_fig4", 0,
        curves("k/n", (0.3, 0.5), DBR=(0.21, 0.21), exact=(0.2, 0.2)),
        curves("k/n", (0.3, 0.5), DBR=(0.21, 0.25), exact=(0.2, 0.2)),
    ),
    (
        "gvq_fig4", 1,
        curves("k/n", (0.3, 0.5), DBR=(0.1, 0.1), BR=(0.2, 0.2)),
        curves("k/n", (0.3, 0.5), DBR=(0.1, 0.3), BR=(0.2, 0.2)),
    ),
    (
        "gvq_fig4", 2,
        curves("k/n", (0.5, 1.0), DBR=(0.1, 0.3), MF=(0.2, 0.2)),
        curves("k/n", (0.5, 1.0), DBR=(0.1, 0.1), MF=(0.2, 0.2)),
    ),
    (
        "gvq_fig5", 0,
        curves("gamma", (4.0, 5.0), BR=(0.3, 0.1), MF=(0.2, 0.2)),
        curves("gamma", (4.0, 5.0), BR=(0.1, 0.3), MF=(0.2, 0.2)),
    ),
    (
        "gvq_fig10", 0,
        [{"way": "GVQ", "PSNR (dB)": 26.0, "file (kbit)": 20.0},
         {"way": "VQ, 16 vectors", "PSNR (dB)": 25.0, "file (kbit)": 30.0}],
        [{"way": "GVQ", "PSNR (dB)": 26.0, "file (kbit)": 40.0},
         {"way": "VQ, 16 vectors", "PSNR (dB)": 25.0, "file (kbit)": 30.0}],
    ),
    ("gvq_fig11", 0, [{"across over down": 2.0}], [{"across over down": 0.5}]),
    ("gvq_fig8", 0, [{"purity": 0.95}], [{"purity": 0.6}]),
    (
        "jmlr_table3", 0,
        rows("sunglasses in one cluster (%)", **{"MCVQ 15x10": 99.0}),
        rows("sunglasses in one cluster (%)", **{"MCVQ 15x10": 60.0}),
    ),
    (
        "jmlr_fig11", 0,
        [{"part of the mouth": 1, "part of the eyes": 2}],
        [{"part of the mouth": 1, "part of the eyes": 1}],
    ),
    ("jmlr_fig13", 0, [{"taken for it (%)": 97.0}], [{"taken for it (%)": 20.0}]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "place", "yes", "no"), CASES)
def test_a_claim_can_hold_and_can_fail(name, place, yes, no):
    test = EXPERIMENTS.paper(name).claims[place].test
    for made_up, holds in ((yes, True), (no, False)):
        found, shows = test(made_up)
        assert bool(found) is holds
        assert shows


def test_every_claim_is_a_sentence_and_says_what_it_needs():
    for name in EXPERIMENTS:
        paper = EXPERIMENTS.paper(name)
        for claim in () if paper is None else paper.claims:
            assert claim.says.endswith("."), name
            assert not claim.untested or claim.untested.endswith("."), name
