"""
How many parts, how many states
===============================

Images of a box, a triangle and a cross, each at one of nine heights: three parts of nine states.
The size selected automatically by the ELBO, the moves that were tried, the stability of the parts,
and a comparison by held-out cells.
"""

import numpy as np
from sklearn.model_selection import GridSearchCV

from partwise import MCVQ, CellKFold, ObservedCells, make_shapes, part_stability
from partwise.plot import GatesDisplay, SizePathDisplay, StabilityDisplay

shapes = make_shapes()
X = shapes.data + 0.1 * np.random.default_rng(0).normal(size=shapes.data.shape)
model = MCVQ("auto", "auto", random_state=0).fit(X)
print(f"{model.n_parts_} parts with {model.n_states_} states")
GatesDisplay.from_estimator(model, image_shape=shapes.image_shape)

# %%
# Parts and states are split, merged, added and removed; a move is accepted if the ELBO increases.
# Crosses are rejected moves.
SizePathDisplay.from_estimator(model)

# %%
# Stability: are the same parts found in random halves of the rows? 1 means always, 0 means no more
# often than by chance.
stability = part_stability(model, X, n_fits=4, random_state=0)
print("agreement of the parts:", stability.part_agreement.round(2))
StabilityDisplay.from_stability(stability, image_shape=shapes.image_shape)

# %%
# Held-out cells as an independent criterion: mean log density per cell (higher is better).
search = GridSearchCV(
    MCVQ(n_states=9, random_state=0), {"n_parts": [1, 2, 3, 4]}, cv=CellKFold(3, random_state=0)
).fit(ObservedCells(X))
for size, score in zip(
    search.cv_results_["param_n_parts"], search.cv_results_["mean_test_score"], strict=True
):
    print(f"n_parts={size}: {score:.3f}")
