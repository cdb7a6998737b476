"""
A survey with missing answers
=============================

Mixed-type data: 944 American voters of 1996 (American National Election Studies, public domain,
from statsmodels), with numbers, categories and ordered answers. Which questions belong together,
what types of voters there are, imputation of missing answers with calibrated intervals, anomalous
answers, and synthetic rows.
"""

import numpy as np
import pandas as pd
from statsmodels.datasets import anes96

from partwise import MCVQ
from partwise.plot import DependenceDisplay, ProfilesDisplay, TableDisplay

data = anes96.load_pandas().data.astype(int)
scale = ["extremely liberal", "liberal", "slightly liberal", "moderate"]
scale += ["slightly conservative", "conservative", "extremely conservative"]
parties = ["strong Democrat", "weak Democrat", "leans Democrat", "independent"]
parties += ["leans Republican", "weak Republican", "strong Republican"]
schools = ["grades 1-8", "some high school", "high school", "some college"]
schools += ["college, 2 years", "college, 4 years", "advanced degree"]


def ordered(codes, levels):
    """Codes as an ordered categorical column."""
    return pd.Categorical.from_codes(codes - codes.min(), levels, ordered=True)


complete = pd.DataFrame(
    {
        "own position": ordered(data["selfLR"], scale),
        "Clinton's position": ordered(data["ClinLR"], scale),
        "Dole's position": ordered(data["DoleLR"], scale),
        "party": ordered(data["PID"], parties),
        "vote": np.where(data["vote"] == 1, "Dole", "Clinton"),
        "age": data["age"],
        "education": ordered(data["educ"], schools),
        "income bracket": data["income"],
        "TV news per week": data["TVnews"],
        "population (1000)": data["popul"],
    }
)
hidden = np.random.default_rng(0).random(complete.shape) < 0.2
table = complete.mask(hidden)
table.head(4)

# %%
# ``likelihood="auto"`` selects a likelihood per column; ``likelihood={"income bracket":
# "gaussian"}`` overrides it for one column. The numbers of parts and states are selected
# automatically by the evidence lower bound (ELBO).
model = MCVQ("auto", "auto", likelihood="auto", random_state=0).fit(table)
print(", ".join(f"{name}: {kind}" for name, kind in zip(table, model.kinds_, strict=True)))
print(f"{model.n_parts_} parts with {model.n_states_} states")

# %%
# The summary has one row per state: the columns of its part, its share of the voters, and its
# profile. Columns without a part are background columns.
summary = model.summary().to_frame()
for name, columns in summary.groupby("part")["columns"].first().items():
    print(f"{name}: {columns}")
with pd.option_context("display.max_colwidth", None):
    print(summary[["part", "state", "share"]].to_string(index=False))
    print(*summary["profile"], sep="\n")

# %%
# The table, columns ordered by part and rows sorted by state. Missing values have a color of their
# own.
TableDisplay.from_estimator(model, table)

# %%
# Mutual information between columns, and the profiles of the states of one part.
DependenceDisplay.from_estimator(model)
ProfilesDisplay.from_estimator(model, 0)

# %%
# ``impute`` returns the same DataFrame without missing values. Each imputed number has an interval,
# each imputed category has probabilities. The true answers are known here, so both can be checked.
imputed = model.impute(table)
lower, upper = model.predict_interval(table, coverage=0.8)
where = table["age"].isna()
inside = complete["age"][where].between(lower["age"][where], upper["age"][where])
print(f"80 % intervals of age contain {inside.mean():.0%} of the removed values")
where = table["vote"].isna()
stated = model.predict_proba_columns(table, ["vote"])["vote"].max(axis=1)[where].mean()
correct = (imputed["vote"] == complete["vote"])[where].mean()
print(f"vote: stated probability {stated:.0%}, correct {correct:.0%}")

# %%
# Anomalous cells: answers that contradict the other answers of the same voter.
model.anomalous_cells(table, 5)

# %%
# Any columns given any others, and synthetic voters who share some answers.
print(
    model.predict_columns(
        given={"own position": "liberal", "education": "advanced degree"},
        columns=["vote", "party", "age"],
    )
)
model.sample(3, given={"party": "independent"}, random_state=0)[0]
