"""Small pictures as data URLs inside the page."""

import base64
import colorsys
import io

import numpy as np

# Distinct on white and on black, and with most forms of color blindness.
_COLORS = (
    "#4e79a7",
    "#f28e2b",
    "#59a14f",
    "#e15759",
    "#b07aa1",
    "#76b7b2",
    "#edc948",
    "#9c755f",
)
_NEUTRAL = np.array([128.0, 128.0, 128.0])
_MISSING = np.array([230.0, 159.0, 0.0])  # as in the displays


def part_color(part: int) -> str:
    """The color of a part, as ``#rrggbb``."""
    if part < len(_COLORS):
        return _COLORS[part]
    # With the golden angle, consecutive colors differ for any number of parts.
    red, green, blue = colorsys.hls_to_rgb(part * 0.381966 % 1.0, 0.55, 0.5)
    return "#" + "".join(f"{round(255 * c):02x}" for c in (red, green, blue))


def gray_picture(
    values: np.ndarray, shape: tuple[int, int], limits: tuple[float, float] = (0.0, 1.0)
) -> str:
    """Values as grays between black and white; NaN in the color of missing values."""
    low, high = limits
    known = np.isfinite(values)
    gray = 255 * np.clip((np.where(known, values, low) - low) / (high - low), 0, 1)
    return _address(np.where(known[:, None], gray[:, None], _MISSING), shape)


def parts_picture(parts: np.ndarray, gates: np.ndarray, shape: tuple[int, int]) -> str:
    """Each pixel in the color of its part, faint if the part is uncertain; background gray."""
    colors = np.array(
        [[int(part_color(k)[i : i + 2], 16) for i in (1, 3, 5)] for k in range(gates.shape[1])],
        dtype=float,
    )
    sure = np.where(parts >= 0, gates[np.arange(len(parts)), parts], 0.0)[:, None]
    return _address(_NEUTRAL + sure * (colors[parts] - _NEUTRAL), shape)


def _address(pixels: np.ndarray, shape: tuple[int, int]) -> str:
    """Encode red, green and blue between 0 and 255, (n_pixels, 3), as a PNG data address."""
    from matplotlib.image import imsave

    file = io.BytesIO()
    # Without the name of the program the same picture gives the same bytes with any release.
    imsave(
        file,
        np.rint(pixels).astype(np.uint8).reshape(*shape, 3),
        format="png",
        metadata={"Software": None},  # type: ignore[dict-item]  # Pillow takes None
    )
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
