"""Compiled kernels with checked indices: an index out of bounds is an error instead of a crash."""

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import partwise
from partwise._compiled import Kernel

# Compiled kernels, by module. A new one belongs here, and in what `_RUN` calls.
KERNELS = {
    "answers.ranking": ("_select", "_sink", "_worse"),
    "association.directed_kernels": ("_energy", "_keep_better", "_reach", "propagate", "revise"),
    "association.kernels": (
        "energies",
        "factorise",
        "search",
        "_choices",
        "mean_field",
        "_shift",
        "gibbs",
        "_softplus",
        "propagate",
        "_energy",
        "revise",
        "multistage",
    ),
    "compression.channel": ("_exchange",),
    "compression.coder": ("_opinion", "_share_of_ones", "_share_in_format_1", "code"),
    "data.kernels": (
        "encode_numbers",
        "score_squares",
        "collect_squares",
        "score_codes",
        "collect_codes",
        "score_statistics",
        "collect_statistics",
        "score_presence",
        "collect_presence",
        "score_rows",
        "expect_rows",
        "entry_densities",
        "collect_rows",
    ),
    "likelihoods.copula": ("_shares", "_tail", "choice_moments"),
    "likelihoods.gamma": ("_add_level",),
    "likelihoods.mixtures": (
        "_incomplete_beta",
        "student_cdf",
        "_density",
        "mixture_quantile",
        "_live_states",
        "state_quantiles",
        "part_quantiles",
    ),
    "likelihoods.ordinal": ("interval_moments",),
    "models.aspect": ("_expect", "_fold_in", "_mix", "_match", "_law"),
    "models.choice": ("_add_rows",),
    "models.class_chain": ("_run", "_walk"),
    "models.factor_proposals": ("_select", "_climb"),
    "models.factors": ("_invert", "_add_multiplied"),
    "models.gvq_binary": ("_coordinate_descent",),
    "models.moving_parts": ("add_gains",),
    "models.ordinal": ("_settle_rows", "_posterior", "_censor"),
    "models.predict": ("_mix_cells",),
    "models.predict_factors": (
        "_cell_products",
        "_mix_means",
        "_mix_levels",
        "_level_densities",
        "_mixed_densities",
    ),
    "models.scatter_updates": ("turns", "_settle"),
    "models.sizes": ("add_overlaps",),
    "sampling.importance": ("_mixed_log_density", "_weigh_draws", "_weigh_all"),
    "starts.dependence": ("_add_pairs",),
    "starts.kmeans": ("_add_products", "_add_sums", "_cluster", "_measure"),
}


def found_kernels():
    """Kernels of the package, by their full names."""
    names = [info.name for info in pkgutil.walk_packages(partwise.__path__, "partwise.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    return {
        f"{kernel.__module__}.{kernel.__name__}": kernel
        for module in modules
        for kernel in vars(module).values()
        if isinstance(kernel, Kernel)
    }


def test_every_kernel_is_listed():
    listed = {f"partwise.{module}.{name}" for module, names in KERNELS.items() for name in names}
    assert found_kernels().keys() == listed


_RUN = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
import pandas as pd
from scipy import sparse
from pathlib import Path
from tests.fuzz.checkpoints import FITS
from tests.fuzz.models import _warm
from tests.test_bounds import found_kernels
from partwise import GVQ, MCFA, MCVQ, Translations
from partwise.association import METHODS
from partwise.models.choice import Choice
from partwise.compression import channel_code, compress, decompress
for fit in FITS.values():  # all models, dense
    fit(None)
rng = np.random.default_rng(0)
X = rng.normal(size=(40, 6))
X[rng.random(X.shape) < 0.3] = np.nan
for model in (MCVQ(2, 3), MCFA(2, 2), MCVQ(2, 2, gating="factorised"), MCFA(2, 1, gating="tied")):
    model.set_params(max_iter=4, random_state=0).fit(X).predict_interval(X)
_warm()  # every stored model answers every question
image = np.add.outer(np.arange(33), np.arange(24)).astype(np.uint8)[:, :, None]
assert decompress(compress(image, n_components=3, side=8).content, "image").shape == image.shape
decompress(Path("tests/compression/format_1.pw").read_bytes(), "image")
channel_code(rng.normal(size=(8, 2)), error_rate=0.01)
for association in METHODS:
    GVQ(3, association=association, max_iter=3, random_state=0).fit(X).encode(X)
for n_components in (3, 17):  # codes enumerated, and sought
    GVQ(n_components, binary=True, max_iter=3, random_state=0).fit((X > 0).astype(float))
whole = np.nan_to_num(X)
model = MCVQ(2, 2, n_classes=2, class_chain=True, max_iter=3, random_state=0).fit(whole)
model.predict(whole)
model.sample(20)
MCVQ("auto", "auto", random_state=0).fit(whole)
moves = Translations((2, 3), max_shift=1, by="part")
MCVQ(2, 1, transformations=moves, max_iter=2, random_state=0).fit(whole)
for gating in ("factorised", "standard"):
    model = MCFA(2, 2, gating=gating, max_iter=4, random_state=0).fit(X)
    model.row_likelihood(X, 50)
model.score_cells(X, [0], [0], [0.0])
many = rng.normal(size=(3000, 40)) + 3.0 * rng.integers(3, size=(3000, 4)).repeat(10, axis=1)
MCVQ(4, 9, max_iter=2, random_state=0).fit(many)
MCVQ(4, 9, gating="standard", max_iter=2, random_state=0).fit(many[:300]).row_likelihood(many[:9])
many[rng.random(many.shape) < 0.2] = np.nan
MCVQ(4, 3, gating="factorised", max_iter=2, random_state=0).fit(many)
shown = rng.random((400, 80)) < 0.2
weights = np.zeros((80, 80), np.float32)
Choice(weights, np.arange(80), np.full(80, 0.1), 1.0, 0.0, 1.0).scores(sparse.csr_matrix(shown))
stars = sparse.csr_array(np.where(shown, rng.integers(1, 6, shown.shape), 0.0))
for likelihood in ("categorical", "gaussian", "poisson"):
    for gating in ("annealed", "factorised"):
        how = {"likelihood": likelihood, "gating": gating, "max_iter": 2, "random_state": 0}
        model = MCVQ(3, 6, sparse_absent="unobserved", **how).fit(stars)
        model.score_cells(stars, [0], [0], [2.0])
MCFA(2, 2, max_iter=2, random_state=0).fit(stars).transform(stars)
numbers = sparse.csr_array(np.where(shown, rng.normal(size=shown.shape), 0.0))
MCVQ(3, 6, max_iter=2, random_state=0).fit(numbers).transform(numbers)
table = pd.DataFrame({f"x{d}": whole[:, d] for d in range(3)})
table["kind"] = np.array(["a", "b", "c"], dtype=object)[np.arange(40) % 3]
model = MCFA(1, 2, likelihood="auto", max_iter=3, random_state=0).fit(table)
model.predict_proba_columns(table)
unused = {name for name, kernel in found_kernels().items() if not kernel.is_used}
assert not unused, f"no index of {unused} was checked"
print("within bounds")
"""


@pytest.mark.slow
def test_indices_of_kernels_are_within_bounds(tmp_path):
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}  # a cache of its own
    ran = subprocess.run(
        [sys.executable, "-c", _RUN],
        env={**os.environ, **checked},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.endswith("within bounds\n"), ran.stderr[-3000:]
