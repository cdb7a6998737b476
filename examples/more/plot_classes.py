"""
Classes of faces
================

Semi-supervised learning of parts and five conditions, with labels on a fifth of the faces: which
states each condition prefers, predicted conditions of the other faces, and samples from one
condition or from a hybrid of two.
"""

import numpy as np

from partwise import MCVQ, make_faces
from partwise.plot import ClassPriorsDisplay, ClassTableDisplay, SamplesDisplay

faces = make_faces(1000, random_state=0)
conditions = np.array(faces.target_names)[faces.target]
labeled = np.arange(1000) % 5 == 0
model = MCVQ(n_parts=5, n_states=10, random_state=0)
model.fit(faces.data, np.where(labeled, conditions, None))

print("unlabeled faces by true and predicted condition:")
print(ClassTableDisplay.from_estimator(model, faces.data[~labeled], conditions[~labeled]))

# %%
# The part with the largest mutual information between its states and the class.
prior, given = model.class_priors_, model.class_given_state_
share = np.einsum("n,nkj->kj", prior, model.state_priors_)
gain = given * np.log(np.maximum(given, 1e-12) / prior[:, None, None])
part = int((share * gain.sum(axis=0)).sum(axis=1).argmax())
ClassPriorsDisplay.from_estimator(model, part, image_shape=faces.image_shape)

# %%
# A hybrid: this part as in "scream", all others as in "sunglasses".
hybrid = dict.fromkeys(range(5), "sunglasses") | {part: "scream"}
SamplesDisplay.from_estimator(model, hybrid=hybrid, image_shape=faces.image_shape)
