"""
Binary features
===============

Short codes: a row is an origin plus the sum of some features, and its code has one bit per feature.
The nearest code is found exactly, with a proof. Planted features are recovered; two sets of
features describe clusters in the plane; features of synthetic faces; a comparison of association
methods.
"""

import numpy as np

from partwise import GVQ, make_faces
from partwise.association import Problem, make_association
from partwise.plot import AssociationDisplay, CodebookDisplay, CodesDisplay, FeaturesDisplay

# Eight features of 40 columns, each on in half of the rows.
rng = np.random.default_rng(0)
planted = rng.normal(size=(8, 40))
bits = rng.integers(2, size=(1000, 8))
X = bits @ planted + 0.3 * rng.normal(size=(1000, 40))
model = GVQ(n_components=8, random_state=0).fit(X)
codes = model.encode(X)
proof = model.certify(X)
print(f"{codes.shape[1]} bits instead of {X.shape[1]} numbers", end=", ")
print(f"error {model.noise_variance_**0.5:.3f} (noise 0.3)")
print(f"code proven optimal for {proof.proven.mean():.0%} of the rows")
n_bits, n_codes, n_pairs = (
    len(np.unique(both, axis=0)) for both in (bits, codes, np.column_stack([bits, codes]))
)
print(f"{n_bits} planted codes, {n_codes} found codes, {n_pairs} pairs: one to one")

# %%
# Several sets: a row uses the set with the nearest code. Clusters in the plane, and the corners of
# two sets of three features.
centers = rng.uniform(-1, 1, (10, 2))
X = centers[rng.integers(10, size=300)] + 0.05 * rng.normal(size=(300, 2))
model = GVQ(n_components=3, n_sets=2, n_init=10, random_state=0).fit(X)
proven = model.certificate_.proven.all()
print(f"squared error {model.noise_variance_:.4f} per entry, all codes proven optimal: {proven}")
CodebookDisplay.from_estimator(model, X)

# %%
# Features of faces, and the most frequent codes.
faces = make_faces(500, random_state=0)
model = GVQ(n_components=8, random_state=0).fit(faces.data)
FeaturesDisplay.from_estimator(model, image_shape=faces.image_shape)
CodesDisplay.from_estimator(model, faces.data, n_codes=12, image_shape=faces.image_shape)

# %%
# Approximate association methods for comparison. The more similar the features, the larger their
# error; no method has a lower squared error than the exact one.
names = ("exact", "mean_field", "belief_revision")
similarity = (0, 2, 4, 6)
errors: dict[str, list[list[float]]] = {name: [[] for _ in similarity] for name in names}
for i, gamma in enumerate(similarity):
    for _ in range(30):
        features = rng.normal(gamma, 1.0, (10, 4))
        x = rng.integers(2, size=10) @ features + np.sqrt(0.1) * rng.normal(size=4)
        problem = Problem.complete(features, x[None])
        for name in names:
            code = make_association(name).associate(problem).values[0]
            errors[name][i].append(float(np.abs(x - code @ features).mean()))
AssociationDisplay.from_errors(similarity, errors, what="similarity of the features")
