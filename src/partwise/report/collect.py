"""From a fitted model, and data if there is some, to a plain dict with everything the page says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from partwise import __version__
from partwise.answers.tables import Feature, features
from partwise.estimators.recommender import Recommender
from partwise.fitted import fitted_of, schema_of
from partwise.plot.view import (
    View,
    apart,
    as_shown,
    check_image_shape,
    percent,
    shades,
    view,
)
from partwise.report.embed import embed, names_of, pack_rows, packed_size
from partwise.report.pictures import grey_picture, part_colour, parts_picture
from partwise.stability import PartStability

# Enough to judge by; more would make the page long, or the wait for scores of large data.
_SCORED_CELLS = 1_000_000
_SHOWN_COLUMNS = 40
_LISTED_COLUMNS = 400
_PICTURES = 48

# What the page carries along at most: rows of each kind, entries of rows, items of ratings, and
# characters of packed parameters, which keep the file below 5 MB.
_MOST_ROWS = {"image": 32, "table": 400, "text": 400}
_MOST_ENTRIES = 100_000
_MOST_ITEMS = 1000
_MOST_PACKED = 3_600_000

# Lines that show what a loaded model does.
_USES = (
    ("model.predict_states(X)", "the state of each part in every row"),
    ("model.transform(X)", "the same in numbers, a row each"),
    ("model.encode(X)", "the code of every row"),
    ("model.predict(X)", "the class of every row"),
    ("model.impute(X)", "the table with its holes filled"),
    ("model.reconstruct(X)", "the model's version of every row"),
    ("model.recommend(r, 10)", "the best for somebody whose ratings are r"),
    ("model.next_question(r)", "what to ask them next"),
)


def collect(
    model: Any,
    data: Any = None,
    image_shape: Sequence[int] | None = None,
    title: str = "Partwise report",
    model_file: str | None = None,
    stability: PartStability | None = None,
    row_names: Sequence[Any] | None = None,
    column_names: Sequence[Any] | None = None,
    fit_seconds: float | None = None,
) -> dict[str, Any]:
    """Gather what the report says.

    Parameters
    ----------
    model : estimator
        Fitted.
    data : array-like, frame or sparse matrix of shape (n_samples, n_features), or None
        Rows to look at and to score; NaN means missing.
    image_shape : two int or None
        Height and width, if the columns are the pixels of an image.
    title : str
        Heading of the page.
    model_file : str or None
        Name of the file the model was saved to, if it was.
    stability : PartStability or None
        How sure the parts are, as `partwise.part_stability` of this model gives it.
    row_names : sequence of n_samples names, or None
        What rows are called, such as titles of documents; None takes a frame's index.
    column_names : sequence of n_features names, or None
        What columns are called, such as the words of a vocabulary; None takes those seen in fit.
    fit_seconds : float or None
        How long the fit took, if it is known.

    Returns
    -------
    content : dict
        Strings, numbers, and lists and dicts of these; pictures are data addresses, and ``live``
        holds what the page's own code works with (None where it has nothing to do).
    """
    check_is_fitted(model)
    names = _named(column_names, names_of(model), "columns")
    lead = model
    if isinstance(model, Recommender):
        lead = model.estimators_[0]
        if data is not None or image_shape is not None:
            raise ValueError(
                "A recommender's page takes neither rows nor an image shape: whoever opens it "
                "gives ratings there; leave both out."
            )
    shape = check_image_shape(image_shape, len(names))
    seen = replace(view(lead), names=names) if hasattr(lead, "gates_") else None
    if stability is not None and (seen is None or not np.array_equal(stability.parts, seen.parts)):
        raise ValueError("stability is that of another model; give part_stability of this one.")
    kind = _kind(model, seen, shape)
    rows = None if data is None else _Rows(model, data, row_names, _MOST_ROWS.get(kind, 0))
    rows = rows if rows is not None and rows.n_rows else None
    content: dict[str, Any] = {
        "title": title,
        "version": __version__,
        "kind": kind,
        "thing": {"image": "pixel", "ratings": "item", "text": "word"}.get(kind, "column"),
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
    }
    content |= _parts(seen, kind, shape, stability)
    content["live"] = None
    if seen is not None:
        live = _live(model, seen, kind, shape, rows, content)
        if packed_size(live["model"]) <= _MOST_PACKED:
            content["live"] = live
    content["summary"] = _summary(content)
    return content


def _named(given: Sequence[Any] | None, usual: list[str], what: str) -> list[str]:
    """Give names as text, the usual ones if there are no others."""
    if given is None:
        return usual
    if len(given) != len(usual):
        raise ValueError(f"There are {len(given)} names for {len(usual)} {what}; give one each.")
    return [str(name) for name in given]


def _kind(model: Any, seen: View | None, shape: tuple[int, int] | None) -> str:
    """Say which of the page's explorers serves a model."""
    if isinstance(model, Recommender):
        return "ratings"
    if seen is None:
        return "plain"
    if shape is not None:
        return "image"
    kinds = {group.likelihood.explorer for group in fitted_of(model).columns}
    return kinds.pop() if len(kinds) == 1 else "table"


# --- what stands in the page itself ---


def _bound(model: Any) -> dict[str, Any] | None:
    """Give the bound's trace, of models that have one."""
    if not hasattr(model, "lower_bounds_"):
        return None
    return {
        "values": [float(bound) for bound in model.lower_bounds_],
        "last": float(model.lower_bound_),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
    }


def _parts(
    seen: View | None, kind: str, shape: tuple[int, int] | None, stability: PartStability | None
) -> dict[str, Any]:
    """Describe the parts, if a model has them."""
    if seen is None:
        return {"noun": None, "n_parts": 0, "n_vectors": 0, "parts": [], "background": None}
    parts = [_part(seen, k, kind, shape) for k in range(seen.n_parts)]
    for part in parts:
        part["agreement"] = None
        if stability is not None and part["n_columns"]:
            part["agreement"] = float(stability.part_agreement[part["number"]])
    return {
        "noun": seen.noun,
        "mixed": schema_of(seen.model) is not None,
        "n_refits": 0 if stability is None else len(stability.refits),
        "left_out": seen.left_out,
        "n_parts": seen.n_parts,
        "n_vectors": sum(len(part["vectors"]) for part in parts),
        "parts": parts,
        "background": _listed(seen, -1, seen.columns(-1)),
        "map": None if shape is None else parts_picture(seen.parts, seen.gates, shape),
    }


def _part(seen: View, k: int, kind: str, shape: tuple[int, int] | None) -> dict[str, Any]:
    """Describe one part: its columns and its states or factors."""
    shown = seen.shown(k)
    vectors: list[dict[str, Any]] = [
        {"number": int(j), "weight": float(weight), "share": percent(weight)}
        for j, weight in zip(shown, seen.weights[k, shown], strict=True)
    ]
    first = seen.telling_columns(k, _SHOWN_COLUMNS)
    own = seen.columns(k) if kind == "table" else seen.telling_columns(k, _LISTED_COLUMNS)
    part: dict[str, Any] = {
        "number": k,
        "colour": part_colour(k),
        **_listed(seen, k, own),
        "vectors": vectors,
        "n_left_out": int(seen.sizes[k]) - len(shown),
        "profile": [],
        "classes": _cells(*seen.by_class(k)) if hasattr(seen.model, "classes_") else [],
    }
    if shape is not None:
        limits = seen.limits()
        part["gate"] = grey_picture(seen.gates[:, k], shape)
        for vector in vectors:
            picture = seen.masked(k, seen.vectors[k, vector["number"]], sum(limits) / 2)
            vector["picture"] = grey_picture(picture, shape, limits)
    elif schema_of(seen.model) is not None:
        part["profile"] = [
            {"name": _told(feature), "cells": [_cell(feature, int(j)) for j in shown]}
            for feature in features(fitted_of(seen.model), k)[:_SHOWN_COLUMNS]
        ]
    else:
        # The columns that the part explains best come first.
        at = np.ix_(shown, first)
        cells = _cells(seen.vectors[k][at].T, seen.tints(k)[at].T)
        part["profile"] = [
            {"name": seen.names[d], "cells": row} for d, row in zip(first, cells, strict=True)
        ]
    return part


def _told(feature: Feature) -> str:
    """Name a number, or a level of a column."""
    return feature.name if feature.level is None else f"{feature.name} = {feature.level}"


def _cell(feature: Feature, j: int) -> dict[str, Any]:
    """Write what a column is in one state, as `_cells` does."""
    value, tint = float(feature.values[j]), float(np.clip(feature.away[j] / 2, -1, 1))
    return {"value": value, "tint": tint, "text": feature.text(value)}


def _listed(seen: View, part: int, columns: np.ndarray) -> dict[str, Any]:
    """Name columns of a part, not more than a page can hold."""
    names = [seen.names[d] for d in columns[:_LISTED_COLUMNS]]
    return {"n_columns": len(seen.columns(part)), "columns": names}


def _cells(values: np.ndarray, tints: np.ndarray) -> list[list[dict[str, Any]]]:
    """Write a table as numbers with the strength of their colour, from -1 to 1."""
    return [
        [
            {"value": float(value), "tint": float(tint), "text": None}
            for value, tint in zip(*row, strict=True)
        ]
        for row in zip(values, tints, strict=True)
    ]


def _classes(model: Any) -> list[dict[str, Any]]:
    """Name the classes and say how common they are; none without a class variable."""
    pairs = zip(getattr(model, "classes_", ()), getattr(model, "class_priors_", ()), strict=True)
    return [
        {"label": str(label), "weight": float(share), "share": percent(float(share))}
        for label, share in pairs
    ]


def _learned(model: Any, shape: tuple[int, int] | None) -> list[dict[str, Any]]:
    """List learned values by name: numbers as they are, arrays by shape, vectors as pictures."""
    out: list[dict[str, Any]] = []
    for name in sorted(vars(model)):
        value = vars(model)[name]
        if name.startswith("_") or not name.endswith("_") or name.endswith("names_in_"):
            continue
        entry: dict[str, Any] = {"name": name, "value": str(value), "pictures": []}
        if isinstance(value, np.ndarray) and value.ndim:
            entry["value"] = "array of " + " x ".join(map(str, value.shape))
            if shape is not None and value.shape[-1] == np.prod(shape):
                vectors = value.reshape(-1, value.shape[-1])[:_PICTURES].astype(float)
                limits = apart(vectors[np.isfinite(vectors)])
                entry["pictures"] = [grey_picture(vector, shape, limits) for vector in vectors]
        elif not isinstance(value, int | float | str | np.generic | np.ndarray):
            continue
        out.append(entry)
    return out


# --- rows ---


class _Rows:
    """Rows to look at: all that are scored, and the first of them that the page carries along."""

    def __init__(self, model: Any, data: Any, names: Sequence[Any] | None, most: int) -> None:
        self.n_rows = data.shape[0] if hasattr(data, "shape") else len(data)
        index: Sequence[Any] = getattr(data, "index", range(self.n_rows))
        n_columns = max(len(names_of(model)), 1)
        data = data.tocsr() if sparse.issparse(data) else data
        self.scored = data[: max(_SCORED_CELLS // n_columns, 1)]
        self.n_scored = min(self.n_rows, max(_SCORED_CELLS // n_columns, 1))
        if sparse.issparse(data):
            n = int(np.searchsorted(data.indptr[1:], _MOST_ENTRIES, side="right"))
        else:
            n = max(_MOST_ENTRIES // n_columns, 1)
        n = min(n, most, self.n_rows)
        # Of a table of several kinds, the model's own numbers.
        self.carried = data[:n] if schema_of(model) is None else as_shown(data[:n], model)
        usual = [f"Row {i}" if isinstance(i, int) else str(i) for i in index]
        self.names = _named(names, usual, "rows")[:n]


def _scores(
    model: Any, seen: View | None, rows: _Rows, shape: tuple[int, int] | None
) -> dict[str, Any]:
    """Score the data, and say how far its reconstruction is from it."""
    originals = as_shown(rows.scored, model)
    reconstructed = as_shown(model.reconstruct(rows.scored), model)
    known = np.isfinite(originals)
    # Columns of a table have units of their own; pixels share one. Levels have no distances.
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
        "n_shown": len(rows.names),
        "missing": float(1 - known.mean()),
        "error": float(np.sqrt(np.mean(misses**2))) if misses.size else None,
        "score": float(model.score(rows.scored)) if hasattr(model, "row_likelihood") else None,
        "limits": None if shape is None else shades(originals, reconstructed),
    }


# --- what the page's own code works with ---


def _live(
    model: Any,
    seen: View,
    kind: str,
    shape: tuple[int, int] | None,
    rows: _Rows | None,
    content: dict[str, Any],
) -> dict[str, Any]:
    """Gather the parameters, and what is needed to show what they say."""
    names, only = seen.names, None
    if kind == "ratings" and len(names) > _MOST_ITEMS:
        only = np.sort(np.argsort(-model._fitted.counts, kind="stable")[:_MOST_ITEMS])
        names = [names[d] for d in only]
    live: dict[str, Any] = {
        "kind": kind,
        "names": names,
        "model": embed(model, only),
        "partOf": [int(k) for k in (seen.parts if only is None else seen.parts[only])],
        "parts": [
            {
                "colour": part["colour"],
                "order": [vector["number"] for vector in part["vectors"]],
                "shares": [vector["share"] for vector in part["vectors"]],
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
        limits = seen.limits() if data is None else data["limits"]
        if seen.noun == "factor" and data is None:  # loadings have limits about 0
            limits = apart(seen.own_centre() + np.outer([-3, 3], seen.own_spread()))
        live |= {"shape": list(shape), "limits": list(limits)}
    elif kind == "table":
        # Parts side by side, in each the columns that tell most first, then the background.
        order = [seen.telling_columns(k, len(names)) for k in range(seen.n_parts)]
        used = np.concatenate([group.index for group in fitted_of(model).columns])
        rest = seen.columns(-1)[np.isin(seen.columns(-1), used)]
        live["columnOrder"] = [int(d) for d in np.concatenate([*order, rest])]
        schema = schema_of(model)
        live["terms"] = [None] * len(names) if schema is None else _terms(schema)
    if rows is not None and rows.names:
        absent_zero = bool(fitted_of(model).columns[0].absent_zero)
        kept = pack_rows(rows.carried, absent_zero, "f4" if kind in ("image", "text") else "f8")
        live["rows"] = {"names": rows.names, **kept}
    return live


def _terms(schema: Any) -> list[dict[str, Any] | None]:
    """Say how a table's columns are written: levels, logarithms and dates."""
    out: list[dict[str, Any] | None] = []
    for column in schema.columns:
        terms: dict[str, Any] = {}
        if column.has_levels:
            terms["levels"] = [column.text(code) for code in range(len(column.levels))]
        elif column.kind == "lognormal":
            terms["offset"] = float(column.offset)
        elif column.form == "date":
            terms["date"] = "date" if column.whole else "datetime-local"
        out.append(terms or None)
    return out


def _summary(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Write the sizes and scores as lines of a table."""
    bound, data, thing = content["bound"], content["data"], content["thing"]
    lines = [
        ("Model", content["call"]),
        (f"{thing.capitalize()}s", f"{content['n_features']:,}"),
    ]
    if content["n_parts"]:
        n_left_out = sum(part["n_left_out"] for part in content["parts"])
        rest = f", and {n_left_out} {content['left_out']}" if n_left_out else ""
        lines += [
            ("Parts", f"{content['n_parts']}"),
            (f"Background {thing}s", f"{content['background']['n_columns']:,}"),
            (f"{content['noun'].capitalize()}s", f"{content['n_vectors']}{rest}"),
        ]
    if content["classes"]:
        lines.append(("Classes", f"{len(content['classes'])}"))
    if bound is not None:
        steps = f"{bound['n_iter']} step{'' if bound['n_iter'] == 1 else 's'}"
        took = "" if content["fit_seconds"] is None else f", in {content['fit_seconds']:.1f} s"
        ended = "converged" if bound["converged"] else "stopped"
        lines += [
            ("Lower bound", f"{bound['last']:,.2f} nats a row"),
            ("Fit", f"{ended} after {steps}{took}"),
        ]
    if data is not None:
        of = ""
        if data["n_scored"] < data["n_rows"]:
            of = f" (first {data['n_scored']:,} rows)"
        lines.append(("Rows of data given here", f"{data['n_rows']:,}"))
        lines.append((f"Missing entries{of}", f"{100 * data['missing']:.1f} %"))
        if data["score"] is not None:
            lines.append((f"Log-likelihood a row{of}", f"{data['score']:,.2f} nats"))
        if data["error"] is not None:
            unit = "" if content["kind"] == "image" else ", in standard deviations of the columns"
            name = f"Root mean square error of reconstruction{of}"
            lines.append((name, f"{data['error']:.4g}{unit}"))
    return lines
