"""Small pieces of drawing that displays share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure

# No shade of grey, and told apart from both ends of the diverging map by those who see no red.
MISSING = "#e69f00"


def get_figure(
    figure: Figure | SubFigure | None, width: float, height: float
) -> Figure | SubFigure:
    """Return the figure given, or make one of this size in inches."""
    if figure is not None:
        return figure
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def with_missing(cmap: str | Colormap) -> Colormap:
    """Return a colour map in which NaN has a colour of its own."""
    import matplotlib

    return matplotlib.colormaps.get_cmap(cmap).with_extremes(bad=MISSING)


def note_missing(figure: Figure | SubFigure) -> None:
    """Add a legend that says which colour means missing."""
    from matplotlib.patches import Patch

    figure.legend(
        handles=[Patch(color=MISSING, label="missing")],
        loc="outside lower right",
        fontsize="small",
        frameon=False,
    )


def show_picture(
    ax: Axes,
    values: np.ndarray,
    shape: tuple[int, int],
    limits: tuple[float, float],
    cmap: str | Colormap,
) -> None:
    """Draw one row of data as an image, without ticks."""
    low, high = limits
    ax.imshow(values.reshape(shape), cmap=cmap, vmin=low, vmax=high, interpolation="nearest")
    bare(ax)


def bare(ax: Axes) -> None:
    """Take ticks and frame away."""
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def name_columns(
    ax: Axes, names: list[str], axis: Literal["x", "y"] = "x", at_most: int = 60
) -> None:
    """Label an axis with column names; with too many to read, none."""
    if len(names) > at_most:
        ax.set(**{f"{axis}ticks": []})
        return
    shown = [name if len(name) <= 24 else name[:23] + "…" for name in names]
    # A dollar sign would start a formula.
    shown = [name.replace("$", r"\$") for name in shown]
    if axis == "x":
        ax.set_xticks(range(len(names)), shown, rotation=60, ha="right", rotation_mode="anchor")
    else:
        ax.set_yticks(range(len(names)), shown)
    ax.tick_params(axis=axis, length=0, labelsize="x-small")
