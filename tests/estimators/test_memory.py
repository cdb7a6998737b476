"""Memory of a fit beyond its data, in bytes that numpy asked for."""

import tracemalloc

import numpy as np
import pytest

from partwise import MCFA, MCVQ

MOST = 300 << 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", [MCVQ(6, 10), MCFA(6, 4)], ids=lambda model: type(model).__name__)
def test_a_fit_of_many_images_needs_little_beside_them(model, dtype):
    """A default fit of 20,000 images of 28x28 pixels; blocks are larger than the data itself."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 784)).astype(dtype)
    X += np.repeat(rng.normal(size=(20_000, 6)), [130] * 5 + [134], axis=1)
    model.set_params(max_iter=2, random_state=0).fit(X[:200])  # compiles
    tracemalloc.start()
    try:
        model.fit(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST
