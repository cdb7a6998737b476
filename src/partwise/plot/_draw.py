"""Small pieces of plots that displays share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.image import AxesImage

    AnyFigure: TypeAlias = Figure | SubFigure
    Colors: TypeAlias = str | Colormap
    Drawn: TypeAlias = tuple[AnyFigure, np.ndarray]  # a figure and its axes

# Not a shade of gray, and distinct from both ends of the diverging map without red vision.
MISSING = "#e69f00"

# Missing values of tables, next to colors that have a meaning.
ABSENT = "0.72"

# Values of tables are plotted in standard deviations; beyond two is simply "far".
FAR = (-2.0, 2.0)
DEVIATIONS = "standard deviations\nfrom the column's mean"


def get_figure(figure: AnyFigure | None, width: float, height: float) -> AnyFigure:
    """Return the figure given, or make one of this size in inches."""
    if figure is not None:
        return figure
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def get_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the axes given, or make some in a new figure of this size in inches."""
    return get_figure(None, width, height).subplots() if ax is None else ax


def picture_grid(figure: AnyFigure | None, n: int, height: float) -> Drawn:
    """Make axes for n pictures, at most eight in a line, each so high in inches with its title."""
    across = min(n, 8)
    down = -(-n // across)
    figure = get_figure(figure, 1.5 * across, height * down)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for ax in grid[n:]:
        ax.set_axis_off()
    return figure, grid[:n]


def with_missing(cmap: Colors, color: str = MISSING) -> Colormap:
    """Return a color map in which missing values are marked."""
    import matplotlib

    return matplotlib.colormaps.get_cmap(cmap).with_extremes(bad=color)


def note_missing(figure: AnyFigure, color: str = MISSING) -> None:
    """Add a legend that says which color means missing."""
    from matplotlib.patches import Patch

    figure.legend(
        handles=[Patch(color=color, label="missing")],
        loc="outside lower right",
        fontsize="small",
        frameon=False,
    )


def show_picture(
    ax: Axes,
    values: np.ndarray,
    shape: tuple[int, int],
    limits: tuple[float, float],
    cmap: Colors,
) -> None:
    """Plot one row of data as an image, without ticks."""
    low, high = limits
    ax.imshow(values.reshape(shape), cmap=cmap, vmin=low, vmax=high, interpolation="nearest")
    bare(ax)
    # White at the edge of a picture differs from the page.
    ax.spines[:].set(visible=True, color="0.7", linewidth=0.5)


def show_table(
    ax: Axes, values: np.ndarray, limits: tuple[float, float], cmap: Colors
) -> AxesImage:
    """Plot a heat map, without ticks."""
    low, high = limits
    image = ax.imshow(
        values, cmap=cmap, vmin=low, vmax=high, aspect="auto", interpolation="nearest"
    )
    bare(ax)
    return image


def color_bar(
    figure: AnyFigure,
    image: AxesImage,
    axes: Iterable[Axes],
    label: str,
    *,
    shrink: float = 1.0,
    aspect: float = 20.0,
    extend: str = "neither",
) -> None:
    """Add a color bar beside some axes."""
    bar = figure.colorbar(image, ax=list(axes), shrink=shrink, aspect=aspect, extend=extend)
    bar.set_label(label, fontsize="small")
    bar.ax.tick_params(labelsize="small")
    bar.outline.set_visible(False)


def bare(ax: Axes) -> None:
    """Remove ticks and frame."""
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def name_ticks(ax: Axes, names: Sequence[str], axis: Literal["x", "y"] = "x") -> None:
    """Label the cells of a heat map along one axis."""
    shown = [plain(name) for name in names]
    if axis == "x":
        ax.set_xticks(range(len(names)), shown)
    else:
        ax.set_yticks(range(len(names)), shown)
    ax.tick_params(axis=axis, length=0, labelsize="x-small")


def name_columns(
    ax: Axes, names: Sequence[str], axis: Literal["x", "y"] = "x", at_most: int = 60
) -> None:
    """Label an axis with column names; with too many to read, none."""
    if len(names) > at_most:
        ax.set(**{f"{axis}ticks": []})
        return
    name_ticks(ax, names, axis)
    if axis == "x":
        ax.tick_params(axis="x", labelrotation=60)
        for label in ax.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def plain(text: str, at_most: int = 24) -> str:
    """Shorten a name; a dollar sign would start a formula."""
    text = text if len(text) <= at_most else text[: at_most - 1] + "…"
    return text.replace("$", r"\$")


def grouped(parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order of the columns by part, background last, and where one part ends and another begins."""
    group = np.where(parts < 0, len(parts) + 1, parts)
    order = np.argsort(group, kind="stable")
    return order, np.flatnonzero(np.diff(group[order])) + 0.5


def show_rows(
    ax: Axes,
    values: np.ndarray,
    parts: np.ndarray,
    cmap: Colors,
) -> AxesImage:
    """Plot rows of deviations as a heat map, the columns of a part next to each other."""
    order, edges = grouped(parts)
    image = show_table(ax, values[:, order], FAR, cmap)
    for edge in edges:
        ax.axvline(edge, color="black", linewidth=1.5)
    return image


def part_label(k: int, names: Sequence[str] = ()) -> str:
    """The name of a part as the user gave it, or its number."""
    return (names[k] if k < len(names) else "") or f"part {k}"


def name_parts(ax: Axes, parts: np.ndarray, names: Sequence[str] = ()) -> None:
    """Write the parts' names above their columns in a heat map of rows."""
    for k, middle in middles(parts):
        ax.annotate(
            plain(part_label(k, names)),
            (middle, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize="x-small",
        )


def middles(parts: np.ndarray) -> list[tuple[int, float]]:
    """Parts that have columns, and the middle of these once they are grouped."""
    ordered = parts[grouped(parts)[0]]
    return [
        (int(k), float(np.flatnonzero(ordered == k).mean())) for k in np.unique(parts[parts >= 0])
    ]
