"""Synthetic cartoon faces whose parts, states and conditions are known.

A face is a fixed head on which five disjoint parts are painted: hair, brows, eyes, nose and mouth.
Every part has a handful of states, each one picture. The condition (anger, neutral, scream, smile,
sunglasses) sets how likely the states of brows, eyes and mouth are; hair and nose ignore it. Given
the condition, the parts are independent, as the models assume, so the best possible answers can be
computed from the tables below.

Pictures are painted once and then looked up by state. All lengths are in pixels; `x` counts from
the middle of the face to the right, `y` from the top of the image down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.utils import Bunch

from partwise.models.class_chain import draw_chain
from partwise.sampling.randomness import as_generator
from partwise.typing import Seed

_SIDE = 32
_CONDITIONS = ("anger", "neutral", "scream", "smile", "sunglasses")

# Shades of grey: 0 is black.
_PAGE, _SHIRT, _SKIN, _EDGE, _INK, _WHITE = 0.93, 0.45, 0.76, 0.40, 0.05, 1.0

# A pixel belongs to a part when its shade has at least this standard deviation over the part's
# states: less would drown in the default noise of 0.1. Fainter pixels are left as background.
_LEAST_SPREAD = 0.08


# Probability that a face in a sequence has the condition of the face before.
_STAYING = 0.9


class _Part(NamedTuple):
    """One part: how it is painted, and how likely its states are."""

    name: str
    paint: Callable[[_Canvas, str], None]
    states: dict[str, Sequence[float]]  # per cent in each condition, or one number for all five


class _Canvas:
    """A picture to paint on, with soft edges one pixel wide."""

    def __init__(self) -> None:
        y, x = np.mgrid[:_SIDE, :_SIDE].astype(float)
        self.x, self.y = x - (_SIDE - 1) / 2, y
        self.shade = np.full((_SIDE, _SIDE), _PAGE)

    def fill(self, distance: np.ndarray, shade: float, strength: float = 1.0) -> None:
        """Paint where the signed distance to a shape's edge is negative."""
        cover = strength * np.clip(0.5 - distance, 0.0, 1.0)
        self.shade += cover * (shade - self.shade)

    def ellipse(self, x: float, y: float, rx: float, ry: float) -> np.ndarray:
        """Signed distance to an ellipse, exact enough near its edge."""
        u, v = self.x - x, self.y - y
        scaled = np.hypot(u / rx, v / ry)
        slope = np.maximum(np.hypot(u / rx**2, v / ry**2), 1e-9)  # 0 at the very middle
        return np.where(scaled > 0, scaled * (scaled - 1) / slope, -min(rx, ry))

    def box(self, x: float, y: float, rx: float, ry: float, corner: float = 0.0) -> np.ndarray:
        """Signed distance to a rectangle with round corners."""
        u = np.abs(self.x - x) - rx + corner
        v = np.abs(self.y - y) - ry + corner
        return (
            np.hypot(np.maximum(u, 0), np.maximum(v, 0)) + np.minimum(np.maximum(u, v), 0) - corner
        )

    def curve(self, points: Sequence[tuple[float, float]], width: float) -> np.ndarray:
        """Signed distance to a stroke along the parabola through three points, or a line."""
        start, *middle, end = (np.array(p) for p in points)
        t = np.linspace(0, 1, 65)[:, None]
        path = (1 - t) * start + t * end
        if middle:
            path += 4 * t * (1 - t) * (middle[0] - (start + end) / 2)
        gap = np.hypot(self.x - path[:, 0, None, None], self.y - path[:, 1, None, None])
        return gap.min(axis=0) - width / 2


def _paint_head(c: _Canvas) -> None:
    """Paint what never changes: shoulders, neck, ears, face."""
    c.fill(c.ellipse(0, 35, 14, 6), _SHIRT)
    c.fill(c.box(0, 29, 4, 4), _SKIN - 0.12)
    for side in (-1, 1):
        c.fill(c.ellipse(side * 11, 16.5, 2.2, 3), _EDGE)
        c.fill(c.ellipse(side * 11, 16.5, 1.3, 2.1), _SKIN - 0.05)
    c.fill(c.ellipse(0, 17, 11.4, 13.8), _EDGE)
    c.fill(c.ellipse(0, 17, 10.6, 13.0), _SKIN)


def _paint_hair(c: _Canvas, state: str) -> None:
    style, _, color = state.partition(" ")
    shade = {"dark": 0.10, "fair": 0.52, "grey": 0.34}.get(color, _INK)
    cap = np.maximum(c.ellipse(0, 16, 12.0, 14.6), c.y - 6.5)
    if style == "bald":
        c.fill(c.ellipse(-3.5, 5.8, 3.2, 1.5), _WHITE, 0.8)
    elif style == "short":
        c.fill(cap, shade)
    elif style == "long":
        c.fill(np.maximum(c.ellipse(0, 15.5, 14.6, 15.0), c.y - 26.5), shade)
    elif style == "curly":
        for angle in np.linspace(-2.1, 2.1, 13):
            x, y = 11.8 * np.sin(angle), 13.6 - 11.0 * np.cos(angle)
            c.fill(c.ellipse(x, y, 2.6, 2.6), shade)
        c.fill(cap, shade)
    elif style == "tuft":
        c.fill(np.maximum(c.ellipse(0, 5, 3.4, 6), c.y - 6.5), shade)
    elif style == "wreath":
        for side in (-1, 1):
            c.fill(c.ellipse(side * 11.2, 11.6, 2.7, 4.6), shade)


def _paint_brows(c: _Canvas, state: str) -> None:
    style, _, weight = state.partition(" ")
    width, shade = {"fine": (1.3, 0.35), "bushy": (2.5, 0.05)}[weight]
    paths = {
        "lowered": [(7.8, 8.4), (5.0, 9.4), (2.0, 11.0)],
        "flat": [(7.8, 10.2), (5.2, 9.9), (2.2, 10.2)],
        "arched": [(8.0, 10.6), (5.2, 8.6), (2.2, 10.2)],
        "raised": [(7.6, 9.0), (5.0, 7.8), (2.4, 8.2)],
    }
    for side in (-1, 1):
        c.fill(c.curve([(side * x, y) for x, y in paths[style]], width), shade)


def _paint_eyes(c: _Canvas, state: str) -> None:
    look, _, wear = state.partition(" ")
    for side in (-1, 1):
        x = side * 5
        if look == "plain":
            c.fill(c.ellipse(x, 14.5, 3.1, 2.1), _INK)
            c.fill(c.ellipse(x, 14.7, 2.4, 1.5), _WHITE)
            c.fill(c.ellipse(x, 14.6, 1.2, 1.3), _INK)
        elif look == "narrow":
            c.fill(c.ellipse(x, 15, 3.0, 1.6), _WHITE)
            c.fill(c.ellipse(side * 4.6, 15.2, 1.2, 1.2), _INK)
            c.fill(c.curve([(side * 8.3, 12.8), (side * 1.8, 15.2)], 1.5), _INK)
        elif look == "wide":
            c.fill(c.ellipse(x, 14.5, 3.5, 3.0), _INK)
            c.fill(c.ellipse(x, 14.5, 2.8, 2.4), _WHITE)
            c.fill(c.ellipse(x, 14.5, 0.8, 0.8), _INK)
        elif look == "happy":
            c.fill(c.curve([(side * 2.2, 15.8), (x, 13.2), (side * 7.8, 15.8)], 1.5), _INK)
        elif look == "round":
            c.fill(c.ellipse(x, 14.5, 4.3, 3.2), _INK)
        elif look == "square":
            c.fill(c.box(x, 14.2, 4.6, 2.4, 1.0), _INK)
        elif look == "mirror":
            lens = c.ellipse(x - side * 0.2, 14.6, 4.7, 3.4)
            c.fill(lens, _INK)
            c.fill(np.maximum(lens + 1.0, c.y - 14.5), 0.5)
        if wear == "glasses":
            lens = c.ellipse(x, 14.5, 4.2, 3.1)
            c.fill(lens, _INK, 0.25)
            c.fill(np.maximum(lens, -lens - 1.1), _INK)
        if wear:
            c.fill(c.curve([(side * 9, 13.7), (side * 11, 13.2)], 1.0), _INK)
            c.fill(c.curve([(0, 13.3), (side * 1.5, 13.7)], 1.0), _INK)
        if wear == "shades":
            c.fill(c.curve([(x - 2, 14.6), (x - 0.8, 13.2)], 0.8), 0.75)


def _paint_nose(c: _Canvas, state: str) -> None:
    if state == "button":
        c.fill(c.ellipse(0, 19.8, 1.9, 1.6), 0.45)
    elif state == "ball":
        c.fill(c.ellipse(0, 19.3, 3.2, 2.6), 0.40)
    elif state == "long":
        c.fill(c.curve([(0.4, 16.0), (1.6, 18.8), (1.8, 20.6)], 1.2), 0.3)
        c.fill(c.curve([(1.8, 20.8), (-1.8, 20.8)], 1.2), 0.3)
    elif state == "broad":
        c.fill(c.curve([(-3.2, 19.8), (0, 21.3), (3.2, 19.8)], 1.6), 0.25)
    elif state == "pointed":
        c.fill(c.curve([(0, 16.5), (-2.8, 20.8)], 1.1), 0.3)
        c.fill(c.curve([(-2.8, 20.8), (2.0, 20.8)], 1.1), 0.3)
    elif state == "nostrils":
        for side in (-1, 1):
            c.fill(c.ellipse(side * 1.6, 20.2, 1.0, 0.9), _INK)


def _paint_mouth(c: _Canvas, state: str) -> None:
    look, _, chin = state.partition(" ")
    if chin == "beard":
        cheeks = np.minimum(c.ellipse(-5, 17, 5.4, 5.6), c.ellipse(5, 17, 5.4, 5.6))
        jaw = np.maximum(c.ellipse(0, 17, 11.2, 13.6), 17.5 - c.y)
        c.fill(np.maximum(jaw, -cheeks), 0.42)
    if look == "flat":
        c.fill(c.curve([(-4, 25), (4, 25)], 1.7), _INK)
    elif look == "frown":
        c.fill(c.curve([(-5, 27), (0, 23.6), (5, 27)], 1.7), _INK)
    elif look == "smile":
        c.fill(c.curve([(-5.5, 23.2), (0, 27), (5.5, 23.2)], 1.7), _INK)
    elif look == "grin":
        lips = np.maximum(c.ellipse(0, 23, 6.6, 4.8), 22.6 - c.y)
        c.fill(lips, _INK)
        c.fill(lips + 1.1, _WHITE)
    elif look == "scream":
        c.fill(c.ellipse(0, 25.7, 3.6, 3.6), _INK)
        c.fill(c.ellipse(0, 28, 1.8, 1.2), 0.5)


# The order of the percentages is anger, neutral, scream, smile, sunglasses. Each part leaves some
# doubt about the condition; together, brows, eyes and mouth nearly always settle it. What does
# not depend on the condition (beard, glasses, bushy brows) ties the pixels of a part together more
# closely than the condition ties the parts.
_PARTS = (
    _Part(
        "hair",
        _paint_hair,
        {
            "bald": [10],
            "short dark": [16],
            "short fair": [14],
            "long dark": [14],
            "long fair": [14],
            "curly dark": [12],
            "tuft dark": [8],
            "wreath grey": [12],
        },
    ),
    _Part(
        "brows",
        _paint_brows,
        {
            "lowered fine": [48, 1, 0, 0, 1],
            "lowered bushy": [48, 1, 0, 0, 1],
            "flat fine": [2, 34, 0, 12, 24],
            "flat bushy": [2, 34, 0, 12, 24],
            "arched fine": [0, 15, 4, 35, 20],
            "arched bushy": [0, 15, 4, 35, 20],
            "raised fine": [0, 0, 46, 3, 5],
            "raised bushy": [0, 0, 46, 3, 5],
        },
    ),
    _Part(
        "eyes",
        _paint_eyes,
        {
            "plain": [16, 50, 18, 24, 0],
            "plain glasses": [14, 42, 16, 20, 0],
            "narrow": [37, 4, 0, 0, 0],
            "narrow glasses": [33, 4, 0, 0, 0],
            "wide": [0, 0, 35, 0, 0],
            "wide glasses": [0, 0, 31, 0, 0],
            "happy": [0, 0, 0, 29, 0],
            "happy glasses": [0, 0, 0, 27, 0],
            "round shades": [0, 0, 0, 0, 35],
            "square shades": [0, 0, 0, 0, 35],
            "mirror shades": [0, 0, 0, 0, 30],
        },
    ),
    _Part(
        "nose",
        _paint_nose,
        {
            "button": [16],
            "ball": [20],
            "long": [16],
            "broad": [16],
            "pointed": [16],
            "nostrils": [16],
        },
    ),
    _Part(
        "mouth",
        _paint_mouth,
        {
            "flat": [8, 49, 0, 1, 20],
            "flat beard": [8, 47, 0, 1, 18],
            "frown": [40, 2, 0, 0, 6],
            "frown beard": [36, 2, 0, 0, 6],
            "smile": [0, 0, 0, 27, 14],
            "smile beard": [0, 0, 0, 24, 14],
            "grin": [4, 0, 4, 25, 11],
            "grin beard": [4, 0, 4, 22, 11],
            "scream": [0, 0, 48, 0, 0],
            "scream beard": [0, 0, 44, 0, 0],
        },
    ),
)


def _zones() -> np.ndarray:
    """Give the part that may paint each pixel, (32, 32), -1 where none may."""
    c = _Canvas()
    x, y = np.abs(c.x), c.y
    face = c.ellipse(0, 17, 10.6, 13.0) < 0.3
    zones = np.full((_SIDE, _SIDE), -1)
    zones[((y < 7) | ~face) & (y < 28)] = 0
    zones[face & (y >= 7) & (y < 12)] = 1
    zones[face & (y >= 12) & (y < 18)] = 2
    zones[face & (y >= 18) & ((x > 7) | (y > 21))] = 4
    zones[((x < 5) & (y >= 18) & (y < 22)) | ((x < 1.2) & (y >= 16) & (y < 22))] = 3
    return zones


class _Truth(NamedTuple):
    """Everything the faces are made from."""

    head: np.ndarray  # (1024,), without parts
    background: np.ndarray  # (1024,), 0 on the parts' pixels
    masks: np.ndarray  # (1024,)
    appearances: list[np.ndarray]  # per part (n_states, 1024), 0 off the part
    state_tables: list[np.ndarray]  # per part (5, n_states)


@lru_cache(maxsize=1)
def _truth() -> _Truth:
    """Paint every state of every part once."""
    head = _Canvas()
    _paint_head(head)
    background = head.shade.ravel()
    zones = _zones().ravel()
    masks = np.full(_SIDE**2, -1)
    appearances, tables = [], []
    for k, part in enumerate(_PARTS):
        table = np.array([np.broadcast_to(row, 5) for row in part.states.values()], dtype=float).T
        table /= table.sum(axis=1, keepdims=True)
        pictures = []
        for state in part.states:
            canvas = _Canvas()
            _paint_head(canvas)
            part.paint(canvas, state)
            pictures.append(canvas.shade.ravel())
        shades = np.array(pictures)  # (n_states, 1024)
        often = table.mean(axis=0)
        mean = often @ shades
        spread = np.sqrt(often @ (shades - mean) ** 2)
        own = (zones == k) & (spread >= _LEAST_SPREAD)
        masks[own] = k
        appearances.append(np.where(own, shades, 0.0))
        tables.append(table)
    return _Truth(background, np.where(masks >= 0, 0.0, background), masks, appearances, tables)


def make_faces(
    n_samples: int = 1000,
    conditions: Sequence[str | int] | None = None,
    noise_std: float = 0.1,
    light: float = 0.0,
    occlusion: float = 0.0,
    displacement: int = 0,
    sequence: bool = False,
    random_state: Seed = None,
) -> Bunch:
    """Generate cartoon faces, 32 by 32 pixels, from five disjoint parts.

    Hair, brows, eyes (bare, behind glasses or behind sunglasses), nose and mouth (with or without a
    beard) each take one of six to eleven states. The states of brows, eyes and mouth depend on one
    of five conditions, those of hair and nose do not. Given the condition, parts are independent.
    The same `random_state` gives the same faces whatever `noise_std`, `light`, `occlusion` and
    `displacement` are.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of faces.
    conditions : sequence of str or int, or None, default=None
        Use only these conditions, given by name or by label; None means all five. They are equally
        likely.
    noise_std : float, default=0.1
        Standard deviation of the Gaussian noise added to every pixel.
    light : float between 0 and 1, default=0.0
        Strength of uneven light. Before noise, each face is multiplied by ``1 + a u + b v``, where
        ``u`` goes from -1/2 at the left to 1/2 at the right, ``v`` likewise from top to bottom, and
        ``a`` and ``b`` are uniform between ``-light`` and ``light``.
    occlusion : float between 0 and 1, default=0.0
        Fraction of the faces of which a rectangle, a quarter to a half of the image, is replaced by
        Gaussian noise with the mean and variance of that image's pixels.
    displacement : int, default=0
        Largest displacement of a part in pixels: in every face each part is moved by whole pixels,
        uniform from ``-displacement`` to ``displacement`` down and to the right, independently of
        the others. The head stays in place and shows where a part has left; where two parts meet,
        the later of ``part_names`` lies on top.
    sequence : bool, default=False
        Whether the faces follow each other as in a film: a face has the condition of the one before
        with probability 0.9, else one of the others.
    random_state : int, Generator, RandomState or None, default=None
        Seed or source of all random choices.

    Returns
    -------
    Bunch
        The faces,

        - ``data`` : ndarray of shape (n_samples, 1024), 0 is black and 1 is white, before noise;
        - ``image_shape`` : (32, 32);
        - ``target`` : ndarray of shape (n_samples,), int, the condition;
        - ``target_names`` : list of the five conditions;
        - ``states`` : ndarray of shape (n_samples, 5), int, the state of every part;
        - ``part_names`` : list of the five parts;
        - ``occluded`` : ndarray of shape (n_samples, 1024), bool, only if ``occlusion > 0``;
        - ``lighting`` : ndarray of shape (n_samples, 2), ``a`` and ``b``, only if ``light > 0``;
        - ``displacements`` : ndarray of shape (n_samples, 5, 2), int, of every part, down and to
          the right, only if ``displacement > 0``;

        and the true parameters,

        - ``masks`` : ndarray of shape (1024,), int, the part each pixel belongs to, -1 for
          background, which is the same in all faces;
        - ``background`` : ndarray of shape (1024,), 0 on the pixels of parts;
        - ``appearances`` : per part an ndarray of shape (n_states, 1024), 0 on other pixels, so
          that a face without noise is the background plus the appearances of its states;
        - ``state_names`` : per part the names of its states;
        - ``condition_priors`` : ndarray of shape (5,), 0 for conditions left out;
        - ``condition_transitions`` : ndarray of shape (5, 5), the probability of each condition
          after each other, only if ``sequence``;
        - ``state_tables`` : per part an ndarray of shape (5, n_states), the probability of each
          state given the condition;
        - ``noise_std`` : the standard deviation of the noise.

    References
    ----------
    D. A. Ross and R. S. Zemel (2006). Learning Parts-Based Representations of Data. Journal of
    Machine Learning Research 7; section 3.1.1 for the occlusion.

    Examples
    --------
    >>> from partwise.datasets import make_faces
    >>> faces = make_faces(200, conditions=["smile", "scream"], random_state=0)
    >>> faces.data.shape
    (200, 1024)
    >>> faces.part_names
    ['hair', 'brows', 'eyes', 'nose', 'mouth']
    >>> [names[state] for names, state in zip(faces.state_names, faces.states[0], strict=True)]
    ['long fair', 'raised fine', 'happy', 'button', 'grin']
    """
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}.")
    if noise_std < 0:
        raise ValueError(f"noise_std must not be negative, got {noise_std}.")
    for name, value in (("light", light), ("occlusion", occlusion)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be between 0 and 1, got {value}.")
    if not isinstance(displacement, Integral) or not 0 <= displacement < _SIDE:
        raise ValueError(
            f"displacement must be a whole number of pixels from 0 to {_SIDE - 1}, got "
            f"{displacement!r}."
        )
    allowed = _labels(conditions)
    truth = _truth()
    # One stream per use, so that light, noise or occlusion do not change the faces.
    face, shine, grain, cover, move = as_generator(random_state).spawn(5)

    priors = np.zeros(len(_CONDITIONS))
    priors[allowed] = 1 / len(allowed)
    extra = {}
    if sequence:
        extra["condition_transitions"] = transitions = _transitions(allowed)
        target = draw_chain(priors, transitions, n_samples, face)
    else:
        target = face.choice(allowed, size=n_samples)
    states = np.empty((n_samples, len(_PARTS)), dtype=np.int64)
    data = np.tile(truth.background, (n_samples, 1))
    for k, (table, appearance) in enumerate(
        zip(truth.state_tables, truth.appearances, strict=True)
    ):
        steps = np.cumsum(table, axis=1)[:, :-1]
        states[:, k] = (face.random((n_samples, 1)) >= steps[target]).sum(axis=1)
        own = np.flatnonzero(truth.masks == k)
        data[:, own] = appearance[:, own][states[:, k]]

    if displacement > 0:
        extra["displacements"] = moves = move.integers(
            -displacement, displacement + 1, size=(n_samples, len(_PARTS), 2)
        )
        data = _displaced(truth, states, moves)
    if light > 0:
        extra["lighting"] = slopes = shine.uniform(-light, light, size=(n_samples, 2))
        v, u = np.mgrid[:_SIDE, :_SIDE].reshape(2, -1) / (_SIDE - 1) - 0.5
        data *= 1 + slopes @ np.stack([u, v])
    if noise_std > 0:
        data += noise_std * grain.standard_normal(data.shape)
    if occlusion > 0:
        extra["occluded"] = _occlude(data, occlusion, cover)

    return Bunch(
        data=data,
        image_shape=(_SIDE, _SIDE),
        target=target,
        target_names=list(_CONDITIONS),
        states=states,
        part_names=[part.name for part in _PARTS],
        **extra,
        masks=truth.masks.copy(),
        background=truth.background.copy(),
        appearances=[appearance.copy() for appearance in truth.appearances],
        state_names=[list(part.states) for part in _PARTS],
        condition_priors=priors,
        state_tables=[table.copy() for table in truth.state_tables],
        noise_std=noise_std,
    )


def _labels(conditions: Sequence[str | int] | None) -> np.ndarray:
    """Give the labels of the conditions asked for, in order and each once."""
    if conditions is None:
        return np.arange(len(_CONDITIONS))
    known: dict[str | int, int] = {name: label for label, name in enumerate(_CONDITIONS)}
    known.update({label: label for label in range(len(_CONDITIONS))})
    asked = [conditions] if isinstance(conditions, str) else list(conditions)
    unknown = [condition for condition in asked if condition not in known]
    if unknown or not asked:
        problem = f"unknown condition {unknown[0]!r}" if unknown else "no condition given"
        raise ValueError(f"{problem}; conditions are {', '.join(_CONDITIONS)}, or labels 0 to 4.")
    return np.array(sorted({known[condition] for condition in asked}))


def _transitions(allowed: np.ndarray) -> np.ndarray:
    """Probability of each condition after each other in a sequence, (5, 5)."""
    out = np.eye(len(_CONDITIONS))
    if len(allowed) > 1:
        out[np.ix_(allowed, allowed)] = (1 - _STAYING) / (len(allowed) - 1)
        out[allowed, allowed] = _STAYING
    return out


def _displaced(truth: _Truth, states: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Paint the parts of every face at their displaced places on the bare head, (n, 1024)."""
    data = np.tile(truth.head, (len(states), 1)).reshape(-1, _SIDE, _SIDE)
    for k, appearance in enumerate(truth.appearances):
        y, x = np.divmod(np.flatnonzero(truth.masks == k), _SIDE)
        shades = appearance.reshape(-1, _SIDE, _SIDE)[:, y, x][states[:, k]]  # (n, pixels)
        y, x = y + moves[:, k, :1], x + moves[:, k, 1:]
        row, pixel = np.nonzero((y >= 0) & (y < _SIDE) & (x >= 0) & (x < _SIDE))
        data[row, y[row, pixel], x[row, pixel]] = shades[row, pixel]
    return data.reshape(len(states), -1)


def _occlude(data: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Replace a rectangle of some rows by noise, in place; return which pixels, (n, 1024)."""
    n, n_pixels = data.shape
    rows = rng.choice(n, size=round(fraction * n), replace=False)
    sides = np.arange(1, _SIDE + 1)
    areas = np.multiply.outer(sides, sides)
    sizes = np.argwhere((4 * areas >= n_pixels) & (2 * areas <= n_pixels)) + 1  # heights, widths
    size = rng.choice(sizes, size=len(rows))  # (m, 2)
    first = rng.integers(_SIDE - size + 1)
    place = np.arange(_SIDE)[:, None, None]
    inside = (place >= first) & (place < first + size)  # (32, m, 2)
    covered = inside[:, :, 0].T[:, :, None] & inside[:, :, 1].T[:, None, :]  # (m, 32, 32)

    occluded = np.zeros(data.shape, dtype=bool)
    occluded[rows] = covered.reshape(len(rows), n_pixels)
    image = data[rows]
    patch = rng.standard_normal(image.shape)
    patch = image.mean(axis=1, keepdims=True) + image.std(axis=1, keepdims=True) * patch
    data[rows] = np.where(occluded[rows], patch, image)
    return occluded
