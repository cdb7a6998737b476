"""From a fitted model, and data if there is some, to a plain dict with everything the page says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise import __version__
from partwise.plot.view import (
    RARE,
    View,
    as_shown,
    check_image_shape,
    percent,
    shades,
    take_rows,
    view,
)
from partwise.report.pictures import grey_picture, part_colour, parts_picture

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

    Returns
    -------
    content : dict
        Strings, numbers, and lists and dicts of these; pictures are data addresses.
    """
    seen = view(model)
    shape = check_image_shape(image_shape, len(seen.names))
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
        "n_states": sum(len(seen.states(k)) for k in range(seen.n_parts)),
        "n_rare": sum(seen.n_rare(k) for k in range(seen.n_parts)),
        "rare": RARE,
        "background": [seen.names[d] for d in seen.columns(-1)],
        "bound": {
            "values": bounds,
            "last": float(model.lower_bound_),
            "n_iter": int(model.n_iter_),
            "converged": bool(model.converged_),
        },
        "map": None if shape is None else parts_picture(seen.parts, seen.gates, shape),
        "parts": [_part(seen, k, shape) for k in range(seen.n_parts)],
        "samples": [] if shape is None else _samples(model, shape),
        "data": None if data is None else _data(model, seen, data, shape),
    }
    content["summary"] = _summary(content)
    return content


def _part(seen: View, k: int, shape: tuple[int, int] | None) -> dict[str, Any]:
    """Describe one part: its columns and its states."""
    own, used = seen.columns(k), seen.states(k)
    states: list[dict[str, Any]] = [
        {"number": int(j), "prior": float(seen.priors[k, j]), "share": percent(seen.priors[k, j])}
        for j in used
    ]
    part: dict[str, Any] = {
        "number": k,
        "colour": part_colour(k),
        "n_columns": len(own),
        "columns": [seen.names[d] for d in own],
        "states": states,
        "n_rare": seen.n_rare(k),
        "profile": [],
    }
    if shape is not None:
        limits = seen.limits()
        part["gate"] = grey_picture(seen.gates[:, k], shape)
        for state in states:
            picture = seen.masked(k, state["number"], sum(limits) / 2)
            state["picture"] = grey_picture(picture, shape, limits)
    else:
        # The columns that the states tell apart best come first.
        first = own[np.argsort(-seen.telling[k, own], kind="stable")][:_SHOWN_COLUMNS]
        away = seen.deviations(k)
        part["profile"] = [
            {
                "name": seen.names[d],
                "cells": [
                    {"value": float(seen.means[k, j, d]), "deviation": float(away[j, d])}
                    for j in used
                ],
            }
            for d in first
        ]
    return part


def _samples(model: Any, shape: tuple[int, int]) -> list[dict[str, Any]]:
    """Draw new images from the model."""
    rows, states = model.sample(_SAMPLES)
    rows = np.asarray(rows, dtype=float)
    limits = shades(rows, rows[:0])
    return [
        {"picture": grey_picture(row, shape, limits), "states": [int(j) for j in row_states]}
        for row, row_states in zip(rows, np.asarray(states), strict=True)
    ]


def _data(
    model: Any, seen: View, data: Any, shape: tuple[int, int] | None
) -> dict[str, Any] | None:
    """Score the data and reconstruct some rows of it."""
    scored, index = take_rows(data, _SCORED_ROWS)
    n_rows = data.shape[0] if hasattr(data, "shape") else len(data)
    if n_rows == 0:
        return None
    reconstructed = np.asarray(model.reconstruct(scored), dtype=float)
    originals = as_shown(scored, model)
    known = np.isfinite(originals)
    # Columns of a table have units of their own; pixels share one.
    unit = 1.0 if shape is not None else seen.own_spread()
    misses = ((originals - reconstructed) / unit)[known]
    states = np.asarray(model.states(scored))
    n = min(_EXAMPLES, len(index))
    limits = shades(originals[:n], reconstructed[:n])
    examples: list[dict[str, Any]] = []
    for i in range(n):
        example: dict[str, Any] = {
            "row": int(index[i]),
            "states": [int(j) for j in states[i]],
            "n_missing": int((~known[i]).sum()),
        }
        if shape is not None:
            example["original"] = grey_picture(originals[i], shape, limits)
            example["reconstruction"] = grey_picture(reconstructed[i], shape, limits)
            example["parts"] = [
                grey_picture(seen.masked(k, j, sum(limits) / 2), shape, limits)
                for k, j in enumerate(states[i])
            ]
        else:
            holes = np.flatnonzero(~known[i])[:_SHOWN_HOLES]
            example["holes"] = [
                {"name": seen.names[d], "value": float(reconstructed[i, d])} for d in holes
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


def _summary(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Write the sizes and scores as lines of a table."""
    bound, data = content["bound"], content["data"]
    kind = "pixels" if content["is_image"] else "columns"
    steps = f"{bound['n_iter']} steps"
    rare = f", and {content['n_rare']} under {100 * RARE:.1f} %" if content["n_rare"] else ""
    lines = [
        ("Model", content["call"]),
        (kind.capitalize(), f"{content['n_features']:,}"),
        ("Parts", f"{content['n_parts']}"),
        (f"Background {kind}", f"{len(content['background']):,}"),
        ("States", f"{content['n_states']}{rare}"),
        ("Lower bound", f"{bound['last']:,.2f} nats a row"),
        ("Fit", f"converged after {steps}" if bound["converged"] else f"stopped after {steps}"),
    ]
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
