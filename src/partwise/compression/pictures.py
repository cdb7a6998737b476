"""Images as rows of blocks."""

from __future__ import annotations

import numpy as np

from partwise.contracts import Array


def blocks_of(image: Array, side: int) -> Array:
    """Blocks row after row, (P, side^2 channels); the last row and column fill those cut off."""
    height, width, channels = image.shape
    padded = np.pad(image, ((0, -height % side), (0, -width % side), (0, 0)), mode="edge")
    grid = padded.reshape(len(padded) // side, side, -1, side, channels)
    return grid.swapaxes(1, 2).reshape(-1, side * side * channels)


def image_of(blocks: Array, shape: tuple[int, int, int], side: int) -> Array:
    """Image (height, width, channels) of blocks."""
    height, width, channels = shape
    across = -(-width // side)
    grid = blocks.reshape(-1, across, side, side, channels).swapaxes(1, 2)
    return grid.reshape(-1, across * side, channels)[:height, :width]


def psnr(image: Array, other: Array) -> float:
    """Peak signal-to-noise ratio of bytes, in dB; infinite for equal images."""
    error = np.mean((image.astype(float) - other.astype(float)) ** 2)
    return float(10.0 * np.log10(255.0**2 / error)) if error > 0 else float("inf")
