"""
How many parts, how many states
===============================

Images of a box, a triangle and a cross, each at one of nine heights: three parts of nine states.
What ``"auto"`` finds, what it tried on the way, whether the same parts come back from other rows,
and what held-out cells say.
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
# Parts and states are split, merged, born and dropped, and a move is made if the evidence rises.
# Crosses are moves that were refused.
SizePathDisplay.from_estimator(model)

# %%
# Do the same parts come back if only half of the rows are known? 1 is always, 0 no more than by
# chance.
stability = part_stability(model, X, n_fits=4, random_state=0)
print("agreement of the parts:", stability.part_agreement.round(2))
StabilityDisplay.from_stability(stability, image_shape=shapes.image_shape)

# %%
# An independent judge: cells that were hidden from the fit. In nats a cell, more is better.
search = GridSearchCV(
    MCVQ(n_states=9, random_state=0), {"n_parts": [1, 2, 3, 4]}, cv=CellKFold(3, random_state=0)
).fit(ObservedCells(X))
for size, score in zip(
    search.cv_results_["param_n_parts"], search.cv_results_["mean_test_score"], strict=True
):
    print(f"n_parts={size}: {score:.3f}")
