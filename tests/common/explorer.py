"""What tests of the explorer share: odd names, tolerances, the page's inference, recommenders."""

import numpy as np

from partwise import MCFA, MCVQ

SCRIPT = "</script><script>alert(1)</script>"
ODD = f"<!-- <script> \u2028 \u2029 & \" ' {{{{ x }}}} {SCRIPT} <img src=x onerror=alert(2)>"
AGREE = {"rtol": 1e-5, "atol": 1e-5}


def listed(rows):
    """Rows as JSON has them: None where missing."""
    return [[None if np.isnan(x) else float(x) for x in row] for row in np.atleast_2d(rows)]


# What the page makes of rows, all at once.
INFER = """(rows) => rows.map((row) => {
  const { model } = partwise;
  const values = Float64Array.from(row, (x) => (x === null ? NaN : x));
  const found = model.infer(values);
  return {
    code: found.m.slice(0, model.nParts).flatMap((own) => Array.from(own)),
    expected: Array.from(model.expect(found)),
    filled: Array.from(model.fill(found)),
    parts: model.partLikelihoods(values),
    whole: model.likelihood(values)?.logLikelihood ?? null,
    classes: Array.from(model.classes(values, found)),
    reasons: model.explain(values, found).map((part) => part.columns.slice(0, 5)),
  };
})"""


MEMBERS = {
    "states": MCVQ(2, 3, likelihood="categorical", random_state=0),
    "states of numbers": MCVQ(2, 3, random_state=0),
    "ordered levels": MCFA(1, 3, likelihood="ordinal", random_state=0),
    "several": [
        MCVQ(2, 3, likelihood="categorical", random_state=0),
        MCFA(1, 2, likelihood="ordinal", random_state=0),
    ],
}


def popular_question(model, person):
    """What the page asks, which has no choice model: who can answer is told by popularity."""
    gains = model.interview(person).gains()
    counts = dict(zip(model.items_, model.item_counts(), strict=True))
    return max(gains, key=lambda item: gains[item] * counts[item])
