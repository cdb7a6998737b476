"""Kinds of columns, selected from their statistics.

==============  ================================================================================
kind            which columns
==============  ================================================================================
"bernoulli"     truth values; anything that takes two values
"categorical"   text and unordered categories
"ordinal"       categories with an order; numbers of at most ten values, each seen five times; whole
                numbers of up to forty such values, where levels predict held-out values better
"poisson"       whole numbers from 0 that spread no more than five times their mean of up to 30,
                unless another kind predicts held-out values better
"lognormal"     positive numbers so skewed to the right that their logarithms are far less so
"degrees"       numbers from 0 to 360 near both ends, if the name is that of a direction or angle,
                unless Gaussians predict held-out values better
"gaussian"      all other numbers, and dates
others          those of `partwise.likelihoods.LAWS`, where the user asks for them
"ignored"       not used by the model: empty columns, identifiers, free text, objects; missing
                values stay, but those of empty numeric columns become zero
==============  ================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from partwise._text import first_few
from partwise._warnings import warn
from partwise.contracts import Array
from partwise.data.columns import MOST_LEVELS
from partwise.data.frame_reading import sorts_of
from partwise.data.frames import shortened
from partwise.data.number_kinds import are_directions, likely_kind
from partwise.data.support import Support
from partwise.data.survey import MAX_DISTINCT, ColumnSurvey, Counts
from partwise.data.table_column import (
    IGNORED,
    OTHER,
    TableColumn,
    has_levels,
    is_angle,
    law_of_kind,
)
from partwise.typing import Name

# A number with at most this many values, each seen so often on average, has ordered levels.
MAX_ANSWERS = 10
OFTEN = 5
# Counts: up to this mean, and this variance in units of it. Beyond, counts within a state vary more
# (or less) than a Poisson distribution, and a Gaussian fits better.
MAX_COUNT_MEAN = 30.0
MAX_COUNT_SPREAD = 5.0
# Skewness from which a positive number may be lognormal.
SKEWED = 1.0
# Text of more levels than this, most of them seen once, is free text.
MAX_TEXT_LEVELS = 20
# Fewer rows cannot separate an identifier from a number.
IDENTIFIER_ROWS = 20

_NAMED_AS_IDENTIFIER = re.compile(r"(^|[_\s.-])(id|uuid|guid|identifier)$", re.IGNORECASE)

# Names of columns whose repeated, scattered integers are names rather than amounts.
_NAMED_AS_CODE = re.compile(
    r"(^|[_\s.-])(id|code|no|nr|num|number|zip|zipcode|postcode|plz|fips|school)$", re.IGNORECASE
)

# Names of columns whose numbers from 0 to 360 are directions.
_NAMED_AS_DIRECTION = re.compile(
    r"(^|[_\s.-]|wind)(dir|direction|heading|bearing|azimuth|aspect|angle|orientation)"
    r"([_\s.-]?\(?(deg|degrees|°)\)?)?$",
    re.IGNORECASE,
)

# Texts that the user may have meant as dates or numbers. Whole numbers may be codes.
_LIKE_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}")
_LIKE_NUMBER = re.compile(r"[-+]?\d+[.,]\d+\s?[%€$£]?|[-+]?[€$£]\s?\d[\d.,]*|\d[\d.,]*\s?[%€]")
# Texts of numbers, such as 120/80, CHF 12.- or 5 ft 11 in: beginning with one, and of few shapes.
_BEGINS_WITH_NUMBER = re.compile(r"(?:[A-Z]{3} )?[^\w\s]{0,2}\d")
_MAX_SHAPES = 0.5  # per text
# Numbers that mean missing: -99, 999, 888.88 and the like; and dates, in days since 1970.
_CODE_OF_MISSING = re.compile(r"-[1789]|-?([789])\1+(\.\1+)?")
_DATES_OF_MISSING = (-719162.0, -25567.0, -25569.0, 0.0, 2932896.0)
# Texts that are tried, and the share of them that must look so.
_TRIED_TEXTS = 200
_MOST = 0.9

_LEFT_OUT = "left out of the model and returned unchanged"

# Warnings about columns: the problem, and how the column is treated.
_PROBLEMS = {
    "infinite": "infinite values are treated as missing",
    "empty": f"no values; {_LEFT_OUT}",
    "no number": "no values; left out of the model, and imputed as zero",
    "constant": "constant; kept, but without information and in no part",
    "one or missing": "constant; missing values are imputed with the same value (if they mean no, "
    "write it)",
    "far": "{} is far from all other values and may mean missing; replace it by NaN (--missing on "
    "the command line), unless it was measured",
    "identifier": f"looks like an identifier (integers that number the rows); {_LEFT_OUT}",
    "long": "integers beyond 2^53, which look like identifiers and have more digits than a model "
    f"uses; {_LEFT_OUT}; convert them to text to use them as categories, or give their likelihood",
    "text": f"text that hardly repeats (names, free text); {_LEFT_OUT}",
    "many": f"more than {MOST_LEVELS} different levels; {_LEFT_OUT}; merge rare levels to use them",
    "other": f"{OTHER}; {_LEFT_OUT}",
    "dates": "dates stored as text, not used as dates; convert them, for example with "
    "pandas.to_datetime, or read the file with partwise.files.read_data",
    "numbers": "numbers stored as text, not used as numbers; convert them, or read the file with "
    "partwise.files.read_data",
    "inside": "texts of numbers or dates in a form that is not read (such as 120/80, 12 meters), "
    "not used as numbers; write one number per cell, without words, to use them",
    "mixed": "values of several types; each distinct value is a category",
    "rare": "categories that occur in only one row; kept, but little can be learned about them",
    "sorted": "levels without a known order, taken in the order {}; pass ordered "
    "categories (pandas) or an Enum (polars) for another order",
    "differ": "integers that all differ; treated as numbers",
    "duplicate": "the name of another column; a number is appended to the name",
}


def learn_kinds(surveys: Sequence[ColumnSurvey], asked: Sequence[str]) -> list[TableColumn]:
    """Kinds of all columns, as ``asked`` for or "auto"; a warning names each problem once."""
    problems_of: dict[str, list[Name]] = {}
    columns = []
    for survey, kind in zip(surveys, asked, strict=True):
        found, problems = _learn_column(survey, kind)
        columns.append(found)
        for problem in problems:
            problems_of.setdefault(problem, []).append(survey.name)
    names = [survey.name for survey in surveys]
    again = list(dict.fromkeys(name for name in names if names.count(name) > 1))
    if again:
        problems_of["duplicate"] = again
    for problem, which in problems_of.items():
        problem, _, cell = problem.partition(": ")
        warn(f"{listed(which)}: {_PROBLEMS[problem].format(cell)}.")
    if all(column.kind == IGNORED for column in columns):
        raise ValueError(
            "The model can use no column of X (see the warnings); give their kinds with "
            'likelihood={name: "categorical", ...}.'
        )
    return columns


def listed(names: Sequence[Name], bare: bool = False, most: int = 8) -> str:
    """Names in a sentence, the first few of many."""
    shown = first_few([shortened(name) for name in names], most)
    return shown if bare else f"Column{'s' if len(names) > 1 else ''} {shown}"


def _learn_column(survey: ColumnSurvey, asked: str) -> tuple[TableColumn, list[str]]:
    """The kind of a column, and its problems."""
    base = TableColumn(survey.name, IGNORED, survey.form, survey.dtype)
    if asked == IGNORED:
        return replace(base, note="left out as asked"), []
    if survey.form == "other":
        if asked != "auto":
            raise ValueError(f"Column {shortened(survey.name)} has {OTHER}; convert it.")
        return replace(base, note="objects"), ["other"]
    learn = _learn_levels if survey.form == "level" else _learn_numbers
    return learn(survey, asked, base)


def _learn_levels(
    survey: ColumnSurvey, asked: str, base: TableColumn
) -> tuple[TableColumn, list[str]]:
    known = survey.levels or {}
    levels = tuple(level for level, count in known.items() if count)
    n_seen, n_levels = survey.n_seen, survey.n_distinct
    problems = ["mixed"] if not survey.declared and len(sorts_of(levels)) > 1 else []
    if asked == "auto" and (stored := _stored_as_text(levels)):
        problems.append(stored)
    if asked != "auto" and not has_levels(asked):
        held = shortened(levels[0]) if levels else "text"
        raise ValueError(
            f"Column {survey.name!r} holds {held}, which is not a number; convert it, or "
            f'choose likelihood "categorical" instead of {asked!r}.'
        )
    if not n_seen:
        return replace(base, note="empty"), [*problems, "empty"]
    uncounted = survey.levels is None
    if (uncounted or n_levels > MOST_LEVELS) and asked != "auto":
        shown = f"more than {MAX_DISTINCT}" if uncounted else n_levels
        raise ValueError(
            f"Column {survey.name!r} has {shown} levels, above {MOST_LEVELS}; group its levels, or "
            'leave it out with likelihood "ignored".'
        )
    if asked == "auto":
        free = n_levels == n_seen > 2 or n_levels > max(MAX_TEXT_LEVELS, 0.5 * n_seen)
        free |= uncounted
        if (free and not survey.ordered) or uncounted or n_levels > MOST_LEVELS:
            text = uncounted or any(isinstance(level, str) for level in levels)
            problem = ("text" if text else "other") if free else "many"
            base = replace(base, ordered=survey.ordered)
            return replace(base, note=problem), [*problems, problem]
    declared = tuple(known) if survey.declared and len(known) > len(levels) else ()
    base = replace(base, levels=levels, ordered=survey.ordered, categories=declared)
    if len(levels) == 1:
        return replace(base, kind="categorical", note="constant"), [*problems, _constant(survey)]
    if asked != "auto" and (own := law_of_kind(asked).own_levels) and len(levels) > len(own):
        raise ValueError(
            f"Column {survey.name!r} has {len(levels)} levels, but {asked!r} takes {len(own)}; "
            'choose likelihood "categorical".'
        )
    if 1 in known.values():
        problems.append("rare")
    if asked == "ordinal" and not survey.ordered and len(levels) > 2:
        problems.append(f"sorted: {first_few([shortened(level) for level in levels], 8)}")
    kind = asked if asked != "auto" else "ordinal" if survey.ordered else "categorical"
    if asked == "auto" and len(levels) == 2:
        kind = "bernoulli"
    return replace(base, kind=kind), problems


def _stored_as_text(levels: Sequence[object]) -> str:
    """The problem of texts that look like dates or numbers; empty if they do not."""
    texts = [level.strip() for level in levels[:_TRIED_TEXTS] if isinstance(level, str)]
    if len(texts) < 3:
        return ""
    for problem, form in (("dates", _LIKE_DATE), ("numbers", _LIKE_NUMBER)):
        if sum(form.fullmatch(text) is not None for text in texts) >= _MOST * len(texts):
            return problem
    shapes = {re.sub(r"\d+", "0", text) for text in texts}
    few = len(texts) > MAX_ANSWERS and len(shapes) <= _MAX_SHAPES * len(texts)
    n_inside = sum(_BEGINS_WITH_NUMBER.match(text) is not None for text in texts)
    return "inside" if few and n_inside >= _MOST * len(texts) and shapes != {"0"} else ""


def _constant(survey: ColumnSurvey) -> str:
    return "constant" if survey.n_seen == survey.n_rows else "one or missing"


def _codes_of_missing(survey: ColumnSurvey) -> list[str]:
    """Numbers or dates far from all others that probably mean missing."""
    if survey.counts is None or survey.form == "span":
        return []
    values, found = survey.counts[0], list[str]()
    for sorted_values in (values, values[::-1]):  # from either end
        codes = list[str]()
        while len(codes) < len(values) and (
            code := _code_of_missing(float(sorted_values[len(codes)]), survey.form)
        ):
            codes.append(code)
        while codes and not _is_far(sorted_values[len(codes) - 1], sorted_values[len(codes) :]):
            codes.pop()
        found += codes
    return found


def _is_far(value: float, others: Array) -> bool:
    """Whether a value beyond others, which are sorted, is far from them."""
    if len(others) < 3:
        return False
    away, width = abs(value - others[0]), abs(others[-1] - others[0])
    return bool(away > width or (value <= -9 and others[0] >= 0))


def _code_of_missing(value: float, form: str) -> str:
    """The text of a number or date that may mean missing; empty for others."""
    if form == "number":
        text = f"{value:.12g}"
        return text if _CODE_OF_MISSING.fullmatch(text) else ""
    day = float(np.floor(value))
    return str(np.datetime64(int(day), "D")) if day in _DATES_OF_MISSING else ""


def _learn_numbers(
    survey: ColumnSurvey, asked: str, base: TableColumn
) -> tuple[TableColumn, list[str]]:
    problems = ["infinite"] if survey.infinite else []
    n_seen, n_distinct = survey.n_seen, survey.n_distinct
    if n_seen == 0:
        empty = survey.form != "number" or survey.dtype in ("object", "Null")
        note = "empty" if empty else "no number"
        return replace(base, note=note), [*problems, note]
    whole = survey.whole
    base = replace(base, whole=whole, support=survey.support)
    if asked != "auto":
        return _asked_numbers(survey, asked, base), problems
    if survey.rounded:  # distinct integers may be the same float
        return replace(base, note="identifier"), [*problems, "long"]
    levels = () if survey.counts is None else tuple(survey.counts[0].tolist())
    if n_distinct == 1:
        return replace(base, kind="gaussian", note="constant"), [*problems, _constant(survey)]
    problems += [f"far: {code}" for code in _codes_of_missing(survey)]
    if survey.form != "number":
        return replace(base, kind="gaussian", note="in days"), problems
    if n_distinct == 2 and n_seen >= OFTEN:
        return replace(base, levels=levels, kind="bernoulli"), problems
    if n_distinct <= MAX_ANSWERS and n_seen >= OFTEN * n_distinct:
        return replace(base, levels=levels, kind="ordinal"), problems
    if whole and n_seen >= IDENTIFIER_ROWS and (survey.all_differ or survey.counts is None):
        named = _NAMED_AS_IDENTIFIER.search(str(survey.name))
        if named or survey.numbers_rows:
            return replace(base, note="identifier"), [*problems, "identifier"]
        if survey.all_differ:
            problems.append("differ")
    directed = n_seen >= IDENTIFIER_ROWS and survey.lowest >= 0
    directed = directed and _NAMED_AS_DIRECTION.search(str(survey.name)) is not None
    if directed and are_directions(*survey.weighted, survey.support.step):
        return replace(base, kind="degrees", support=_around(survey)), problems
    by_rule = _number_by_rule(survey, base)
    if not whole or survey.counts is None or n_seen < IDENTIFIER_ROWS:
        return by_rule, problems
    kind = likely_kind(*survey.counts, by_rule.kind)
    if kind == "codes":
        kind = "categorical" if _NAMED_AS_CODE.search(str(survey.name)) else "ordinal"
        return replace(base, levels=levels, kind=kind, note="codes"), problems
    if kind == "ordinal":
        return replace(base, levels=levels, kind=kind), problems
    return by_rule if kind == by_rule.kind else replace(base, kind=kind), problems


def _number_by_rule(survey: ColumnSurvey, base: TableColumn) -> TableColumn:
    """The kind of numbers by their mean, variance and skewness."""
    if survey.lowest < 0:
        return replace(base, kind="gaussian")
    if survey.whole and survey.counts is not None:
        mean, variance = _mean_and_variance(survey.counts)
        if mean <= MAX_COUNT_MEAN and variance <= MAX_COUNT_SPREAD * mean:
            return replace(base, kind="poisson")
    if survey.n_seen >= IDENTIFIER_ROWS:
        offset, (values, counts) = _offset(survey), survey.weighted
        skewness = _skewness((values, counts))
        logs = np.log(values + offset), counts
        if skewness > SKEWED and abs(_skewness(logs)) < 0.5 * skewness:
            note = f"logarithm of x + {offset:g}" if offset else "logarithm"
            return replace(base, kind="lognormal", offset=offset, note=note)
    return replace(base, kind="gaussian")


def _asked_numbers(survey: ColumnSurvey, asked: str, base: TableColumn) -> TableColumn:
    """A column of numbers of the kind that the user asks for."""
    if has_levels(asked):
        if survey.rounded:
            raise ValueError(
                f"Column {shortened(survey.name)} has integers beyond 2^53, whose digits "
                "floating-point numbers do not hold; convert them to text for likelihood "
                f"{asked!r}."
            )
        own = law_of_kind(asked).own_levels
        most = MOST_LEVELS if own is None else len(own)
        if survey.counts is None or survey.n_distinct > most:
            shown = survey.n_distinct if survey.counts is not None else f"more than {MAX_DISTINCT}"
            raise ValueError(
                f"Column {survey.name!r} has {shown} different values, but {asked!r} takes at most "
                f'{most}; choose likelihood "gaussian".'
            )
        levels: tuple[float, ...] = tuple(survey.counts[0].tolist())
        if own is not None and len(levels) == 1 and levels[0] in own:
            levels = own
        return replace(base, levels=levels, kind=asked)
    wrong = law_of_kind(asked).check(survey.examples)
    if wrong is not None:
        raise ValueError(f"Column {survey.name!r} has the value {wrong}")
    if asked == "lognormal" and survey.lowest < 0:
        raise ValueError(
            f'Column {survey.name!r} has {survey.lowest:g}, but "lognormal" needs values from 0; '
            'choose likelihood "gaussian".'
        )
    if is_angle(asked):
        return replace(base, kind=asked, support=_around(survey))
    return replace(base, kind=asked, offset=_offset(survey) if asked == "lognormal" else 0.0)


def _around(survey: ColumnSurvey) -> Support:
    """The support of angles, which have no bounds: an interval may go on beyond the cut."""
    return replace(survey.support, low=-np.inf, high=np.inf)


def _offset(survey: ColumnSurvey) -> float:
    """The number to add before the logarithm: 0, or if there are zeros a median.

    It is the median of the distinct positive values, or of all positive rows where there are more
    distinct values than are counted.
    """
    if survey.lowest > 0:
        return 0.0
    values, counts = survey.weighted
    positive = values > 0
    if not positive.any():
        return 1.0
    if survey.counts is not None:
        return float(np.median(values[positive]))
    below = np.cumsum(counts[positive])
    return float(values[positive][np.searchsorted(below, 0.5 * below[-1])])


def _mean_and_variance(weighted: Counts) -> tuple[float, float]:
    values, counts = weighted
    with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest
        mean = float(np.average(values, weights=counts))
        return mean, float(np.average((values - mean) ** 2, weights=counts))


def _skewness(weighted: Counts) -> float:
    mean, variance = _mean_and_variance(weighted)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (weighted[0] - mean) / max(np.sqrt(variance), 1e-300)
        return float(np.average(scaled**3, weights=weighted[1]))
