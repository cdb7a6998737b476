"""Compiled kernels with checked indices: an index out of bounds is an error instead of a crash."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_RUN = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
from tests.fuzz.checkpoints import FITS
from tests.fuzz.models import _warm
from partwise import MCFA, MCVQ
from partwise.compression import compress, decompress
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
