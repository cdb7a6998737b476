"""
Imputation: error and interval coverage
=======================================

More and more cells are removed from a table of 569 tumors with 30 measurements (scikit-learn) and
imputed again. How large is the error, compared with other imputers, and do the intervals have their
nominal coverage? Then a whole region of images is missing.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.impute import KNNImputer

from partwise import MCVQ, PartsImputer, make_faces
from partwise.plot import ReconstructionDisplay

complete = load_breast_cancer().data
scale = complete.std(axis=0)
uniform = np.random.default_rng(0).random(complete.shape)
fractions = (0.1, 0.3, 0.5, 0.7)
errors = {"column mean": [], "KNNImputer": [], "MCVQ": [], "PartsImputer": []}
coverage = []
for fraction in fractions:
    missing = uniform < fraction
    X = np.where(missing, np.nan, complete)
    model = MCVQ(n_parts=4, n_states=8, random_state=0).fit(X)
    answers = (
        np.nanmean(X, axis=0),
        KNNImputer().fit_transform(X / scale) * scale,
        model.impute(X),
        PartsImputer(n_parts=4, n_states=8, random_state=0).fit_transform(X),
    )
    for found, answer in zip(errors.values(), answers, strict=True):
        found.append(np.sqrt(np.mean(((answer - complete) / scale)[missing] ** 2)))
    lower, upper = model.predict_interval(X, coverage=0.9)
    coverage.append(np.mean((lower <= complete) & (complete <= upper), where=missing))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, found in errors.items():
    left.plot(fractions, found, "o-", label=name)
left.set(xlabel="fraction of missing cells", ylabel="RMSE (standard deviations)", ylim=(0, None))
left.legend()
right.plot(fractions, coverage, "o-", color="C2")
right.axhline(0.9, color="0.5", linestyle=":", label="nominal")
right.set(xlabel="fraction of missing cells", ylabel="coverage of 90 % intervals", ylim=(0, 1))
right.legend(loc="lower left")
for name, found in errors.items():
    print(f"{name}: {np.round(found, 2)}")

# %%
# Images: a region is missing rather than single pixels. Hidden parts can only be inferred from the
# others, here through the class.
faces = make_faces(300, random_state=0)
model = MCVQ(n_parts=5, n_states=10, random_state=0).fit(faces.data, faces.target)
covered = faces.data.reshape(-1, *faces.image_shape).copy()
covered[:, 20:] = np.nan
covered = covered.reshape(len(faces.data), -1)
accuracy = np.mean(model.predict(covered) == faces.target)
print(f"class predicted from the upper part: {accuracy:.0%} correct")
ReconstructionDisplay.from_estimator(model, covered, rows=4, image_shape=faces.image_shape)
