"""From a fitted model, and data if there is some, to a plain dict with everything the page says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise import __version__
from partwise.plot.view import (
    View,
    as_shown,
    check_image_shape,
    percent,
    shades,
    take_rows,
    view,
)
from partwise.report.pictures import grey_picture, part_colour, parts_picture
from partwise.stability import PartStability

# Enough to judge by; more would make the page long, or the wait for scores of large data.
_EXAMPLES = 8
_SAMPLES = 12
_SCORED_ROWS = 2000
_SHOWN_COLUMNS = 40
_SHOWN_HOLES = 8


def collect(
    model: Any,
    data: Any = None,
    image_shape: Sequence[int] | None = None,
    title: str = "Partwise report",
    model_file: str | None = None,
    stability: PartStability | None = None,
) -> dict[str, Any]:
    """Gather what the report says.

    Parameters
    ----------
    model : estimator
        Fitted.
    data : array-like, frame or sparse matrix of shape (n_samples, n_features), or None
        Rows to show with their reconstructions; NaN means missing.
    image_shape : two int or None
        Height and width, if the columns are the pixels of an image.
    title : str
        Heading of the page.
    model_file : str or None
        Name of the file the model was saved to, if it was.
    stability : PartStability or None
        How sure the parts are, as `partwise.part_stability` of this model gives it.

    Returns
    -------
    content : dict
        Strings, numbers, and lists and dicts of these; pictures are data addresses.
    """
    seen = view(model)
    shape = check_image_shape(image_shape, len(seen.names))
    if stability is not None and not np.array_equal(stability.parts, seen.parts):
        raise ValueError("stability is that of another model; give part_stability of this one.")
    bounds = [float(bound) for bound in model.lower_bounds_]
    content: dict[str, Any] = {
        "title": title,
        "version": __version__,
        "model": type(model).__name__,
        "call": repr(model),
        "model_file": model_file,
        "is_image": shape is not None,
        "n_features": len(seen.names),
        "n_parts": seen.n_parts,
        "noun": seen.noun,
        "left_out": seen.left_out,
        "background": [seen.names[d] for d in seen.columns(-1)],
        "bound": {
            "values": bounds,
            "last": float(model.lower_bound_),
            "n_iter": int(model.n_iter_),
            "converged": bool(model.converged_),
        },
        "classes": _classes(model),
        "map": None if shape is None else parts_picture(seen.parts, seen.gates, shape),
        "parts": [_part(seen, k, shape) for k in range(seen.n_parts)],
        "samples": [] if shape is None else _samples(model, shape),
        "data": None if data is None else _data(model, seen, data, shape),
    }
    content["n_refits"] = 0 if stability is None else len(stability.refits)
    for part in content["parts"]:
        part["agreement"] = None
        if stability is not None and part["n_columns"]:
            part["agreement"] = float(stability.part_agreement[part["number"]])
    content["n_vectors"] = sum(len(part["vectors"]) for part in content["parts"])
    content["summary"] = _summary(content)
    return content


def _part(seen: View, k: int, shape: tuple[int, int] | None) -> dict[str, Any]:
    """Describe one part: its columns and its states or factors."""
    own, shown = seen.columns(k), seen.shown(k)
    vectors: list[dict[str, Any]] = [
        {"number": int(j), "weight": float(weight), "share": percent(weight)}
        for j, weight in zip(shown, seen.weights[k, shown], strict=True)
    ]
    part: dict[str, Any] = {
        "number": k,
        "colour": part_colour(k),
        "n_columns": len(own),
        "columns": [seen.names[d] for d in own],
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
    else:
        # The columns that the part explains best come first.
        first = seen.telling_columns(k, _SHOWN_COLUMNS)
        at = np.ix_(shown, first)
        cells = _cells(seen.vectors[k][at].T, seen.tints(k)[at].T)
        part["profile"] = [
            {"name": seen.names[d], "cells": row} for d, row in zip(first, cells, strict=True)
        ]
    return part


def _cells(values: np.ndarray, tints: np.ndarray) -> list[list[dict[str, float]]]:
    """Write a table as numbers with the strength of their colour, from -1 to 1."""
    return [
        [{"value": float(value), "tint": float(tint)} for value, tint in zip(*row, strict=True)]
        for row in zip(values, tints, strict=True)
    ]


def _classes(model: Any) -> list[dict[str, Any]]:
    """Name the classes and say how common they are; none without a class variable."""
    pairs = zip(getattr(model, "classes_", ()), getattr(model, "class_priors_", ()), strict=True)
    return [{"label": str(label), "share": percent(float(share))} for label, share in pairs]


def _samples(model: Any, shape: tuple[int, int]) -> list[dict[str, Any]]:
    """Draw new images from the model."""
    rows, made_of = model.sample(_SAMPLES)
    rows = np.asarray(rows, dtype=float)
    limits = shades(rows, rows[:0])
    labels = made_of if hasattr(model, "classes_") else [""] * len(rows)
    return [
        {"picture": grey_picture(row, shape, limits), "label": str(label)}
        for row, label in zip(rows, labels, strict=True)
    ]


def _data(
    model: Any, seen: View, data: Any, shape: tuple[int, int] | None
) -> dict[str, Any] | None:
    """Score the data and reconstruct some rows of it."""
    scored, index = take_rows(data, _SCORED_ROWS)
    n_rows = data.shape[0] if hasattr(data, "shape") else len(data)
    if n_rows == 0:
        return None
    reconstructed = as_shown(model.reconstruct(scored), model)
    originals = as_shown(scored, model)
    known = np.isfinite(originals)
    # Columns of a table have units of their own; pixels share one.
    unit = 1.0 if shape is not None else seen.own_spread()
    misses = ((originals - reconstructed) / unit)[known]
    n = min(_EXAMPLES, len(index))
    limits = shades(originals[:n], reconstructed[:n])
    codes = seen.codes(take_rows(scored, n)[0])
    labels, alone = seen.labels(codes), seen.appearances(codes)
    examples: list[dict[str, Any]] = []
    for i in range(n):
        example: dict[str, Any] = {
            "row": int(index[i]),
            "labels": labels[i],
            "n_missing": int((~known[i]).sum()),
        }
        if shape is not None:
            example["original"] = grey_picture(originals[i], shape, limits)
            example["reconstruction"] = grey_picture(reconstructed[i], shape, limits)
            example["parts"] = [
                grey_picture(seen.masked(k, alone[i, k], sum(limits) / 2), shape, limits)
                for k in range(seen.n_parts)
            ]
        else:
            holes = np.flatnonzero(~known[i])[:_SHOWN_HOLES]
            example["holes"] = [
                {"name": seen.names[d], "value": _filled(model, d, reconstructed[i, d])}
                for d in holes
            ]
        examples.append(example)
    return {
        "n_rows": int(n_rows),
        "n_scored": len(index),
        "missing": float(1 - known.mean()),
        "error": float(np.sqrt(np.mean(misses**2))) if misses.size else None,
        "score": float(model.score(scored)),
        "examples": examples,
    }


def _filled(model: Any, d: int, value: float) -> float | str:
    """What a hole is filled with; of a table as a person would write it."""
    schema = getattr(model, "_schema", None)
    if schema is None or np.isnan(value):
        return float(value)
    return str(schema.columns[d].text(value))


def _summary(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Write the sizes and scores as lines of a table."""
    bound, data = content["bound"], content["data"]
    kind = "pixels" if content["is_image"] else "columns"
    steps = f"{bound['n_iter']} step{'' if bound['n_iter'] == 1 else 's'}"
    n_left_out = sum(part["n_left_out"] for part in content["parts"])
    rest = f", and {n_left_out} {content['left_out']}" if n_left_out else ""
    lines = [
        ("Model", content["call"]),
        (kind.capitalize(), f"{content['n_features']:,}"),
        ("Parts", f"{content['n_parts']}"),
        (f"Background {kind}", f"{len(content['background']):,}"),
        (f"{content['noun'].capitalize()}s", f"{content['n_vectors']}{rest}"),
        ("Lower bound", f"{bound['last']:,.2f} nats a row"),
        ("Fit", f"converged after {steps}" if bound["converged"] else f"stopped after {steps}"),
    ]
    if content["classes"]:
        lines.insert(5, ("Classes", f"{len(content['classes'])}"))
    if data is not None:
        of = ""
        if data["n_scored"] < data["n_rows"]:
            of = f" (first {data['n_scored']:,} rows)"
        lines.append(("Rows of data shown here", f"{data['n_rows']:,}"))
        lines.append((f"Missing entries{of}", f"{100 * data['missing']:.1f} %"))
        lines.append((f"Log-likelihood a row{of}", f"{data['score']:,.2f} nats"))
        if data["error"] is not None:
            unit = "" if content["is_image"] else ", in standard deviations of the columns"
            name = f"Root mean square error of reconstruction{of}"
            lines.append((name, f"{data['error']:.4g}{unit}"))
    return lines
