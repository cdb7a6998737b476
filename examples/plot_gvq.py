"""
Features that are on or off
===========================

Two sets of three features on clusters in the plane, the features of drawn faces, and association
methods side by side.
"""

import numpy as np

from partwise import GVQ, make_faces
from partwise.association import Problem, make_association
from partwise.plot import AssociationDisplay, CodebookDisplay, CodesDisplay, FeaturesDisplay

rng = np.random.default_rng(0)
centres = rng.uniform(-1, 1, (10, 2))
X = centres[rng.integers(10, size=300)] + 0.05 * rng.normal(size=(300, 2))
model = GVQ(n_features=3, n_sets=2, n_init=10, random_state=0).fit(X)
print(f"error {model.noise_:.4f} an entry, all codes proven: {model.certificate_.proven.all()}")
CodebookDisplay.from_estimator(model, X)

# %%
# Faces are made of parts that are there or not, among others.
faces = make_faces(500, random_state=0)
model = GVQ(n_features=8, random_state=0).fit(faces.data)
FeaturesDisplay.from_estimator(model, image_shape=faces.image_shape)
CodesDisplay.from_estimator(model, faces.data, n_codes=12, image_shape=faces.image_shape)

# %%
# The more features look alike, the worse approximations fare.
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
