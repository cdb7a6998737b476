"""
Classes of drawn faces
======================

Learn parts and five conditions together, from labels on a fifth of the faces. Then see which
states a condition favours, how well unlabelled faces are sorted, and faces drawn from each
condition and from a hybrid of two.
"""

import numpy as np

from partwise import MCVQ, make_faces
from partwise.plot import ClassPriorsDisplay, ClassTableDisplay, SamplesDisplay

faces = make_faces(1000, random_state=0)
conditions = np.array(faces.target_names)[faces.target]
labelled = np.arange(1000) % 5 == 0
model = MCVQ(n_parts=5, n_states=10, random_state=0)
model.fit(faces.data, np.where(labelled, conditions, None))

print("faces without a label, by condition and predicted condition:")
print(ClassTableDisplay.from_estimator(model, faces.data[~labelled], conditions[~labelled]))

# %%
# The part that says most about the condition, by the information between its states and the class.
prior, given = model.class_priors_, model.class_given_state_
share = np.einsum("n,nkj->kj", prior, model.state_priors_)
gain = given * np.log(np.maximum(given, 1e-12) / prior[:, None, None])
part = int((share * gain.sum(axis=0)).sum(axis=1).argmax())
ClassPriorsDisplay.from_estimator(model, part, image_shape=faces.image_shape)

# %%
# A hybrid: that part as in a scream, all others as with sunglasses.
hybrid = dict.fromkeys(range(5), "sunglasses") | {part: "scream"}
SamplesDisplay.from_estimator(model, hybrid=hybrid, image_shape=faces.image_shape)
