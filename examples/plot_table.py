"""
A survey with holes
===================

From a table of numbers, categories, yes-or-no and ordered answers, a fifth of it missing, to which
questions belong together, which kinds of people there are in each respect, filled holes and odd
answers. The survey is drawn, so that its truth is known.
"""

import numpy as np

from partwise import MCVQ, make_survey
from partwise.plot import DependenceDisplay, ProfilesDisplay, TableDisplay

survey = make_survey(1500, missing=0.2, random_state=0)
table = survey.frame
table.iloc[:4, :8]

# %%
# ``likelihood="auto"`` finds out what kind of column each is; ``likelihood={"count0":
# "gaussian"}`` would say otherwise for one of them.
model = MCVQ(n_parts=4, n_states=6, likelihood="auto", random_state=0).fit(table)
print(", ".join(f"{name}: {kind}" for name, kind in zip(table, model.kinds_, strict=True)))

# %%
# Columns that belong together, and what kinds of rows there are in each part, in words.
parts = model.summary()
for name, columns in parts.groupby("part")["columns"].first().items():
    print(f"{name}: {columns}")
parts.loc[parts["part"] == "part2", ["state", "share", "profile"]]

# %%
# The table as the model sees it: columns by part, holes in a colour of their own, rows sorted by
# the states of one part and within these by those of the others. Parts know nothing of each other,
# so one order of the rows cannot show the blocks of all.
TableDisplay.from_estimator(model, table)

# %%
# What columns say about each other, and what is typical of the states of one part.
DependenceDisplay.from_estimator(model)
ProfilesDisplay.from_estimator(model, 0)

# %%
# Holes are filled in the table's own terms, each with an interval or with probabilities. As the
# truth is known: how often were they right?
filled = model.impute(table)
lower, upper = model.predict_interval(table, coverage=0.8)
hidden = survey.hidden[:, 0]
truth = survey.complete["number0"][hidden]
inside = (lower["number0"][hidden] <= truth) & (truth <= upper["number0"][hidden])
print(f"80 % intervals of number0 held {inside.mean():.0%} of the removed values")
p = model.predict_proba_columns(table, ["group0"])["group0"].max(axis=1)
hidden = survey.hidden[:, list(table).index("group0")]
right = (filled["group0"] == survey.complete["group0"])[hidden]
print(f"group0: promised {p[hidden].mean():.0%}, right {right.mean():.0%}")

# %%
# Somebody who differs: one answer changed to what hardly anybody gives.
odd = table.copy()
odd.loc[7, "number2"] = np.nanmax(odd["number2"]) * 3
model.anomalous_cells(odd, 3)

# %%
# Any column given any others, and people as they might be.
print(
    model.predict_columns(given={"scale0": "often", "answer0": True}, columns=["group0", "number0"])
)
model.sample(3, given={"scale0": "often"})[0].iloc[:, :8]
