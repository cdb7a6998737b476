"""Collect all that the page says about a fitted model as plain values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise import __version__
from partwise.answers.summaries import doubt_of
from partwise.answers.tables import Feature, features, short
from partwise.data.frames import index_of
from partwise.estimators.recommender import Recommender
from partwise.fitted import fitted_of, schema_of
from partwise.plot.view import (
    View,
    apart,
    as_shown,
    check_image_shape,
    n_rows_of,
    percent,
    shades,
    view,
)
from partwise.report.content import (
    Bound,
    Cell,
    ClassShare,
    Content,
    Learned,
    Live,
    Named,
    Part,
    PartsContent,
    Scores,
    State,
    Vector,
)
from partwise.report.embed import embed, names_of, pack_rows, packed_size
from partwise.report.moving import in_place, moves_of, moving_live
from partwise.report.overview import overview, states_of_parts
from partwise.report.pictures import gray_picture, part_color, parts_picture
from partwise.report.rows import PageRows
from partwise.report.terms import terms, twins
from partwise.stability import PartStability
from partwise.typing import DataLike, Name

# Limits that keep the page short.
_SHOWN_COLUMNS = 40
_SHOWN_LEVELS = 8
_OTHERS = "one of {} others"
_LISTED_COLUMNS = 400
_PICTURES = 48

# Limits that keep the file below 5 MB: rows of each kind, items of ratings, and characters
# of packed parameters.
_MAX_ROWS = {"image": 32, "table": 400, "text": 400}
_MAX_ITEMS = 1000
_MAX_PACKED = 3_600_000

_NO_PARTS: PartsContent = {
    "noun": None,
    "mixed": False,
    "n_refits": 0,
    "left_out": "",
    "doubt": "",
    "n_parts": 0,
    "n_vectors": 0,
    "parts": [],
    "background": None,
    "map": None,
}

# A part is named by all of its columns if they are so few, and so short together.
SHORT_NAMES = 4
SHORT_NAME = 45

# Lines that show what a loaded model does.
_USES = (
    ("model.summary()", "the parts and their states"),
    ("model.predict_states(X)", "the state of each part in every row"),
    ("model.transform(X)", "the same as numbers, for other estimators"),
    ("model.encode(X)", "the code of every row"),
    ("model.predict(X)", "the class of every row"),
    ("model.impute(X)", "the table with missing values imputed"),
    ("model.predict_interval(X)", "lower and upper ends of 90 % intervals"),
    ("model.anomalous_cells(X)", "the most surprising cells"),
    ("model.reconstruct(X)", "what the model expects of every row"),
    ("model.recommend(r, 10, by='rating')", "ten recommendations for a user with ratings r"),
    ("model.next_question(r)", "the most informative item to ask them about"),
)


def collect(
    model: BaseEstimator,
    data: DataLike | None = None,
    image_shape: Sequence[int] | None = None,
    title: str = "Partwise report",
    model_file: str | None = None,
    stability: PartStability | None = None,
    row_names: Sequence[Name] | None = None,
    column_names: Sequence[Name] | None = None,
    fit_seconds: float | None = None,
) -> Content:
    """Collect what the page says.

    Parameters
    ----------
    model : estimator
        Fitted.
    data : array-like, frame or sparse matrix of shape (n_samples, n_features), or None
        Rows to show and to score; NaN means missing.
    image_shape : two int or None
        Height and width, if the columns are the pixels of an image.
    title : str
        Heading of the page.
    model_file : str or None
        Name of the file the model was saved to, if it was.
    stability : PartStability or None
        Certainty of the parts, from `partwise.part_stability` of this model.
    row_names : sequence of n_samples names, or None
        Names of rows, such as titles of documents; None takes a frame's index.
    column_names : sequence of n_features names, or None
        Names of columns, such as the words of a vocabulary; None takes those seen in fit.
    fit_seconds : float or None
        Duration of the fit, if known.

    Returns
    -------
    content : dict
        Strings, numbers, and lists and dicts of these; pictures are data URLs, and ``live`` is the
        input of the page's own code (None for models without parts).
    """
    check_is_fitted(model)
    moves = moves_of(model)
    if moves is None and getattr(model, "transformations", None) is not None:
        shown, shape = in_place(model, data)
        row_names = index_of(data) if row_names is None else row_names
        of = title, model_file, stability, row_names, column_names, fit_seconds
        canvas = collect(model.canvas_model(), shown, shape, *of)
        return {**canvas, "call": repr(model)}
    names = _named(column_names, names_of(model))
    lead = model
    if isinstance(model, Recommender):
        lead = model.estimators_[0]
        if data is not None or image_shape is not None:
            raise ValueError(
                "The page of a recommender takes neither data nor image_shape; leave both out, and "
                "rate items on the page."
            )
    shape = check_image_shape(image_shape if moves is None else moves.image_shape, len(names))
    seen = replace(view(lead), names=names) if hasattr(lead, "gates_") else None
    if stability is not None and (seen is None or not np.array_equal(stability.parts, seen.parts)):
        raise ValueError("stability belongs to another model; pass part_stability of this one.")
    kind = _kind(model, seen, shape) if moves is None else "moving"
    rows = None
    if data is not None and n_rows_of(data):
        rows = PageRows(model, data, row_names)
    table = overview(model, seen, rows) if seen is not None and kind == "table" else None
    parts = _parts(seen, kind, shape, stability, rows)
    if rows is not None:
        anomalous = [] if table is None else [cell["position"] for cell in table["anomalous"] or []]
        states = [state for part in parts["parts"] for state in part["states"]]
        named = [position for state in states for _, position in state["rows"]]
        rows.choose(seen, _MAX_ROWS.get(kind, 0), [*anomalous, *named])
    content: Content = {
        **parts,
        "title": title,
        "version": __version__,
        "kind": kind,
        "thing": {"image": "pixel", "moving": "pixel", "ratings": "item", "text": "word"}.get(
            kind, "column"
        ),
        "model": type(model).__name__,
        "call": repr(model),
        "model_file": model_file,
        "fit_seconds": fit_seconds,
        "n_features": len(names),
        "bound": _bound(lead),
        "classes": _classes(lead),
        "data": None if rows is None else _scores(model, seen, rows, shape),
        "learned": [] if seen is not None else _learned(model, shape),
        "uses": [list(use) for use in _USES if hasattr(model, use[0].split(".")[1].split("(")[0])],
        "overview": table,
        "rows_counted": rows is not None and rows.are_counted,
        "live": None,
        "summary": [],
    }
    if seen is not None:
        live = _live(model, seen, kind, shape, rows, content)
        if packed_size(live["model"]) <= _MAX_PACKED:
            content["live"] = live
    elif moves is not None:
        content["live"] = moving_live(model, moves)
    content["summary"] = _summary(content)
    return content


def _named(given: Sequence[Name] | None, usual: list[str]) -> list[str]:
    """Names as text, `usual` if none are given."""
    if given is None:
        return usual
    if len(given) != len(usual):
        raise ValueError(
            f"There are {len(given)} names for {len(usual)} columns; pass one name per column."
        )
    return [str(name) for name in given]


def _kind(model: BaseEstimator, seen: View | None, shape: tuple[int, int] | None) -> str:
    """The explorer that the page has for a model."""
    if isinstance(model, Recommender):
        return "ratings"
    if seen is None:
        return "plain"
    if shape is not None:
        return "image"
    if schema_of(model) is not None:
        return "table"
    kinds = {group.likelihood.explorer for group in fitted_of(model).columns}
    return kinds.pop() if len(kinds) == 1 else "table"


# --- the page itself ---


def _bound(model: BaseEstimator) -> Bound | None:
    """The trace of the evidence lower bound, of models that have one."""
    if not hasattr(model, "lower_bounds_"):
        return None
    return {
        "values": [float(bound) for bound in model.lower_bounds_],
        "last": float(model.lower_bound_),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
    }


def _parts(
    seen: View | None,
    kind: str,
    shape: tuple[int, int] | None,
    stability: PartStability | None,
    rows: PageRows | None,
) -> PartsContent:
    """Describe the parts of a model, if it has parts."""
    if seen is None:
        return _NO_PARTS
    left_out = seen.left_out
    if kind == "table":
        parts = []
        for k, (states, groups) in enumerate(states_of_parts(seen.model, seen, rows)):
            shown = seen.shown(k)
            if states:
                shown, left_out = np.array([state["number"] for state in states]), "without rows"
            part = _part(seen, k, shown, shape)
            part["states"], part["groups"] = states, groups
            part["name"] = part["name"] or name_of_columns(part["columns"], seen.names)
            parts.append(part)
    else:
        parts = [_part(seen, k, seen.shown(k), shape) for k in range(seen.n_parts)]
    for part in parts:
        if stability is not None and part["n_columns"]:
            part["agreement"] = float(stability.part_agreement[part["number"]])
    return {
        "noun": seen.noun,
        "mixed": schema_of(seen.model) is not None,
        "n_refits": 0 if stability is None else len(stability.refits),
        "left_out": left_out,
        "doubt": _doubt(seen.model) if kind == "table" else "",
        "n_parts": seen.n_parts,
        "n_vectors": sum(len(part["vectors"]) for part in parts),
        "parts": parts,
        "background": _background(seen),
        "map": None if shape is None else parts_picture(seen.parts, seen.gates, shape),
    }


def _part(seen: View, k: int, shown: np.ndarray, shape: tuple[int, int] | None) -> Part:
    """Describe one part: its columns and those of its states or factors that are shown."""
    vectors: list[Vector] = [
        {"number": int(j), "weight": float(weight), "share": percent(weight)}
        for j, weight in zip(shown, seen.weights[k, shown], strict=True)
    ]
    first = seen.informative_columns(k, _SHOWN_COLUMNS)
    own = seen.informative_columns(k, _LISTED_COLUMNS)
    part: Part = {
        "number": k,
        "color": part_color(k),
        **_listed(seen, k, own),
        "vectors": vectors,
        "n_left_out": int(seen.sizes[k]) - len(shown),
        "profile": [],
        "n_profiled": 0,
        "agreement": None,
        "gate": None,
        "name": seen.part_names[k],
        "states": [],
        "groups": [],
        "classes": _cells(*seen.by_class(k)) if hasattr(seen.model, "classes_") else [],
    }
    if shape is not None:
        limits = seen.limits()
        part["gate"] = gray_picture(seen.gates[:, k], shape)
        for vector in vectors:
            picture = seen.masked(k, seen.vectors[k, vector["number"]], sum(limits) / 2)
            vector["picture"] = gray_picture(picture, shape, limits)
    elif schema_of(seen.model) is not None:
        told = short(features(fitted_of(seen.model), k))
        kept = list(dict.fromkeys(feature.name for feature in told))[:_SHOWN_COLUMNS]
        part["n_profiled"] = len(kept)
        part["profile"] = [
            {"name": _name(feature), "cells": [_cell(feature, int(j)) for j in shown]}
            for name in kept
            for feature in _common_levels([one for one in told if one.name == name])
        ]
    else:
        # The columns that the part explains best come first.
        at = np.ix_(shown, first)
        cells = _cells(seen.vectors[k][at].T, seen.tints(k)[at].T)
        part["profile"] = [
            {"name": seen.names[d], "cells": row} for d, row in zip(first, cells, strict=True)
        ]
        part["n_profiled"] = len(first)
    return part


def _doubt(model: BaseEstimator) -> str:
    """That the parts are uncertain, without nats, which are for the statistician."""
    told = doubt_of(fitted_of(model))
    return told and told.split(" (")[0] + "."


def name_of_columns(columns: Sequence[str], every: Sequence[str]) -> str:
    """A name for a part: a word that most of its columns share, or its strongest columns.

    A word that one of the two strongest columns lacks would hide that column.

    ``columns`` are in order of strength, ``every`` are those of the whole table.
    """
    if len(columns) > 2:
        own = Counter(word for name in columns for word in _words(name))
        others = Counter(word for name in every if name not in columns for word in _words(name))
        for word, count in own.most_common(1):
            is_common = count > max(2, len(columns) / 2)
            is_strong = all(word in _words(name) for name in columns[:2])
            if is_common and is_strong and others[word] < (len(every) - len(columns)) / 4:
                return word
    whole = ", ".join(columns)
    if len(columns) <= SHORT_NAMES and len(whole) <= SHORT_NAME:
        return whole
    return f"{columns[0]}, {columns[1]} …"


def _words(name: str) -> set[str]:
    """The words of a column's name, at least three letters each."""
    return set(re.findall(r"[^\W\d_]{3,}", name))


def _common_levels(own: list[Feature]) -> list[Feature]:
    """Features of one column; of many levels the most common, and the others together."""
    if len(own) <= _SHOWN_LEVELS + 1 or any(feature.level is None for feature in own):
        return own
    order = np.argsort([-feature.usual for feature in own], kind="stable")
    rare = [own[i] for i in order[_SHOWN_LEVELS:]]
    values = np.sum([feature.values for feature in rare], axis=0)
    usual = sum(feature.usual for feature in rare)
    away = (values - usual) / max(np.sqrt(usual * (1 - usual)), 1e-9)
    rest = Feature(own[0].name, _OTHERS.format(len(rare)), values, usual, away, own[0].column)
    return [*(own[i] for i in sorted(order[:_SHOWN_LEVELS])), rest]


def _name(feature: Feature) -> str:
    """The name of a column, or of a level of one."""
    return feature.name if feature.level is None else f"{feature.name} = {feature.level}"


def _cell(feature: Feature, j: int) -> Cell:
    """A column in one state."""
    value, tint = float(feature.values[j]), float(np.clip(feature.away[j] / 2, -1, 1))
    return {"value": value, "tint": tint, "text": feature.text(value)}


def _listed(seen: View, part: int, columns: np.ndarray) -> Named:
    """Names of a part's columns, at most as many as a page can hold."""
    names = [seen.names[d] for d in columns[:_LISTED_COLUMNS]]
    return {"n_columns": len(seen.columns(part)), "columns": names}


def _background(seen: View) -> Named:
    """Columns of no part, those that the model does not use left out."""
    schema, columns = schema_of(seen.model), seen.columns(-1)
    if schema is not None:
        columns = columns[[schema.columns[d].kind != "ignored" for d in columns]]
    return {
        "n_columns": len(columns),
        "columns": [seen.names[d] for d in columns[:_LISTED_COLUMNS]],
    }


def _cells(values: np.ndarray, tints: np.ndarray) -> list[list[Cell]]:
    """A table of numbers with the strength of their colors."""
    return [
        [
            {"value": float(value), "tint": float(tint), "text": None}
            for value, tint in zip(*row, strict=True)
        ]
        for row in zip(values, tints, strict=True)
    ]


def _classes(model: BaseEstimator) -> list[ClassShare]:
    """Classes and their probabilities; none without a class variable."""
    pairs = zip(getattr(model, "classes_", ()), getattr(model, "class_priors_", ()), strict=True)
    return [
        {"label": str(label), "weight": float(share), "share": percent(float(share))}
        for label, share in pairs
    ]


def _learned(model: BaseEstimator, shape: tuple[int, int] | None) -> list[Learned]:
    """Learned attributes by name: numbers, shapes of arrays, vectors as pictures."""
    out: list[Learned] = []
    for name in sorted(vars(model)):
        value = vars(model)[name]
        if name.startswith("_") or not name.endswith("_") or name.endswith("names_in_"):
            continue
        entry: Learned = {"name": name, "value": str(value), "pictures": []}
        if isinstance(value, np.ndarray) and value.ndim:
            entry["value"] = "array of " + " x ".join(map(str, value.shape))
            if shape is not None and value.shape[-1] == np.prod(shape):
                vectors = value.reshape(-1, value.shape[-1])[:_PICTURES].astype(float)
                limits = apart(vectors[np.isfinite(vectors)])
                entry["pictures"] = [gray_picture(vector, shape, limits) for vector in vectors]
        elif not isinstance(value, int | float | str | np.generic | np.ndarray):
            continue
        out.append(entry)
    return out


def _scores(
    model: BaseEstimator, seen: View | None, rows: PageRows, shape: tuple[int, int] | None
) -> Scores:
    """Score the data and its reconstruction."""
    originals = rows.coded
    reconstructed = as_shown(model.reconstruct(rows.scored), model)
    known = np.isfinite(originals)
    # Columns of a table differ in units, pixels do not. Levels have no distances.
    numbers, unit = np.ones(originals.shape[1], bool), np.ones(originals.shape[1])
    schema = schema_of(model)
    if schema is not None:
        numbers = np.array([column.is_linear for column in schema.columns])
    if shape is None and seen is not None and schema is None:
        unit = seen.own_spread()
    elif shape is None:
        spread = np.sqrt(np.ma.masked_invalid(originals).var(axis=0).filled(0.0))
        unit = np.where(spread > 0, spread, 1.0)
    misses = ((originals - reconstructed) / unit)[known & numbers]
    return {
        "n_rows": int(rows.n_rows),
        "n_scored": rows.n_scored,
        "n_shown": len(rows.index),
        "missing": float(1 - known.mean()),
        "error": float(np.sqrt(np.mean(misses**2))) if misses.size else None,
        "score": float(model.score(rows.scored)) if hasattr(model, "row_likelihood") else None,
        "limits": None if shape is None else shades(originals, reconstructed),
    }


# --- the input of the page's own code ---


def _live(
    model: BaseEstimator,
    seen: View,
    kind: str,
    shape: tuple[int, int] | None,
    rows: PageRows | None,
    content: Content,
) -> Live:
    """Parameters, names and rows."""
    names, only = seen.names, None
    if kind == "ratings" and len(names) > _MAX_ITEMS:
        only = np.sort(np.argsort(-fitted_of(model).counts, kind="stable")[:_MAX_ITEMS])
        names = [names[d] for d in only]
    live: Live = {
        "kind": kind,
        "names": names,
        "model": embed(model, only),
        "partOf": [int(k) for k in (seen.parts if only is None else seen.parts[only])],
        "parts": [
            {
                "color": part["color"],
                "order": [vector["number"] for vector in part["vectors"]],
                "shares": [vector["share"] for vector in part["vectors"]],
                "name": part["name"],
                "sentences": {state["number"]: _in_row(state) for state in part["states"]},
            }
            for part in content["parts"]
        ],
        "classes": [
            {"label": entry["label"], "share": entry["weight"]} for entry in content["classes"]
        ],
        "rows": None,
    }
    if shape is not None:
        data = content["data"]
        given = None if data is None else data["limits"]
        limits = seen.limits() if given is None else given
        if seen.noun == "factor" and given is None:  # the limits of loadings are symmetric
            limits = apart(seen.own_center() + np.outer([-3, 3], seen.own_spread()))
        live |= {"shape": list(shape), "limits": list(limits)}
    elif kind == "table":
        # Columns by part, the most informative first, then the background.
        order = [seen.informative_columns(k, len(names)) for k in range(seen.n_parts)]
        used = np.concatenate([group.index for group in fitted_of(model).columns])
        rest = seen.columns(-1)[np.isin(seen.columns(-1), used)]
        live["columnOrder"] = [int(d) for d in np.concatenate([*order, rest])]
        schema = schema_of(model)
        table = content["overview"]
        if table is not None:
            lines = [{**line, "bars": []} for line in table["columns"]]
            live["overview"] = {**table, "columns": lines}
        live["terms"] = [None] * len(names) if schema is None else terms(schema)
        live["twins"] = [] if schema is None else twins(schema)
    if rows is not None and len(rows.index):
        absent_zero = bool(fitted_of(model).columns[0].absent_zero)
        kept = pack_rows(rows.shown, absent_zero, "f4" if kind in ("image", "text") else "f8")
        live["rows"] = {
            "names": rows.names,
            "positions": [int(i) for i in rows.index],
            "total": rows.n_rows,
            **kept,
        }
    return live


def _in_row(state: State) -> str:
    """The sentence about a state where one of its rows is shown, with the doubt about it."""
    if not state["is_small"] or not state["n_rows"]:
        return state["sentence"]
    rows = "1 row is" if state["n_rows"] == 1 else f"{state['n_rows']} rows are"
    return f"{state['sentence']}. Only {rows} in this state, perhaps for wrong values."


def _summary(content: Content) -> list[tuple[str, str]]:
    """Sizes and scores as lines of a table."""
    bound, data, thing = content["bound"], content["data"], content["thing"]
    lines = [
        ("Model", content["call"]),
        (f"{thing.capitalize()}s", f"{content['n_features']:,}"),
    ]
    if content["noun"] is not None and content["background"] is not None:
        n_left_out = sum(part["n_left_out"] for part in content["parts"])
        rest = f", and {n_left_out} {content['left_out']}" if n_left_out else ""
        lines += [
            ("Parts", f"{content['n_parts']}"),
            (f"{thing.capitalize()}s without a part", f"{content['background']['n_columns']:,}"),
            (f"{content['noun'].capitalize()}s", f"{content['n_vectors']}{rest}"),
        ]
    if content["classes"]:
        lines.append(("Classes", f"{len(content['classes'])}"))
    if bound is not None:
        steps = f"{bound['n_iter']} EM iteration{'' if bound['n_iter'] == 1 else 's'}"
        took = "" if content["fit_seconds"] is None else f", in {content['fit_seconds']:.1f} s"
        ended = "converged" if bound["converged"] else "stopped"
        lines += [
            ("Evidence lower bound", f"{bound['last']:,.2f} nats per row"),
            ("Fit", f"{ended} after {steps}{took}"),
        ]
    if data is not None:
        of = ""
        if data["n_scored"] < data["n_rows"]:
            of = f" (of {data['n_scored']:,} rows)"
        lines.append(("Rows of data given here", f"{data['n_rows']:,}"))
        lines.append((f"Missing values{of}", f"{100 * data['missing']:.1f} %"))
        if data["score"] is not None:
            lines.append((f"Log-likelihood per row{of}", f"{data['score']:,.2f} nats"))
        if data["error"] is not None:
            unit = "" if thing == "pixel" else ", in standard deviations of the columns"
            name = f"Root mean square error of reconstruction{of}"
            lines.append((name, f"{data['error']:.4g}{unit}"))
    return lines
