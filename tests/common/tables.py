"""Real tables that come with scikit-learn and statsmodels."""

import pytest
from sklearn import datasets

REAL_TABLES = ("iris", "wine", "ccard", "grunfeld", "statecrime", "macrodata", "anes96", "fair")


def real_table(name):
    """At most 600 of its rows; the test is skipped where statsmodels is not installed."""
    if name in ("iris", "wine"):
        table = getattr(datasets, f"load_{name}")(as_frame=True).frame
    else:
        real = pytest.importorskip("statsmodels.api").datasets
        table = getattr(real, name).load_pandas().data
    return table.sample(min(len(table), 600), random_state=0).reset_index(drop=True)
