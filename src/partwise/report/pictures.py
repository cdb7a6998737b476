"""Small pictures as data addresses, so that a page carries them along."""

import base64
import colorsys
import io

import numpy as np

# Told apart on white and on black, and by most people who see colours otherwise.
_COLOURS = (
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


def part_colour(part: int) -> str:
    """Give the colour of a part, as ``#rrggbb``."""
    if part < len(_COLOURS):
        return _COLOURS[part]
    # The golden angle keeps neighbours apart however many there are.
    red, green, blue = colorsys.hls_to_rgb(part * 0.381966 % 1.0, 0.55, 0.5)
    return "#" + "".join(f"{round(255 * c):02x}" for c in (red, green, blue))


def grey_picture(
    values: np.ndarray, shape: tuple[int, int], limits: tuple[float, float] = (0.0, 1.0)
) -> str:
    """Draw values as greys between black and white; NaN in the colour of missing entries."""
    low, high = limits
    known = np.isfinite(values)
    grey = 255 * np.clip((np.where(known, values, low) - low) / (high - low), 0, 1)
    return _address(np.where(known[:, None], grey[:, None], _MISSING), shape)


def parts_picture(parts: np.ndarray, gates: np.ndarray, shape: tuple[int, int]) -> str:
    """Draw each pixel in the colour of its part, the fainter the less sure; background grey."""
    colours = np.array(
        [[int(part_colour(k)[i : i + 2], 16) for i in (1, 3, 5)] for k in range(gates.shape[1])],
        dtype=float,
    )
    sure = np.where(parts >= 0, gates[np.arange(len(parts)), parts], 0.0)[:, None]
    return _address(_NEUTRAL + sure * (colours[parts] - _NEUTRAL), shape)


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
