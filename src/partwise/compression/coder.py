"""Entropy coding of a grid of symbols: an adaptive binary arithmetic coder.

A symbol is written bit by bit, the highest first. The probability of a bit is learned while coding.
Its context is the higher bits of the same symbol and, with neighbors, the same bit of the symbols
to the left and above: 0, 1, or unknown if their higher bits differ.

Reader and writer must agree on every probability to the last unit on any processor, so
probabilities are ratios of integers. Files of format 1 were written with floats.
"""

import numpy as np

from partwise._compiled import compiled

# Probabilities are in units of 2^-PRECISION; the coder's interval has 32 bits.
PRECISION = 16
# An observed bit counts as SEEN; both counts of a context start at BEFORE, two fifths of one bit
# (one half for Krichevsky-Trofimov; bits of a feature in one context are mostly the same).
SEEN, BEFORE = 5, 2


@compiled()
def _opinion(other, value_above, bit):
    """Bit of a neighboring symbol plus 1, or 0 if its higher bits are not ``value_above``."""
    if other < 0 or other >> (bit + 1) != value_above:
        return 0
    return 1 + (other >> bit & 1)


@compiled()
def _share_of_ones(seen):
    """Probability that a bit is 1, from counts of 0 and 1, in units of 2^-PRECISION."""
    share = (seen[1] << PRECISION) // (seen[0] + seen[1])
    return np.uint64(min(max(share, 1), (1 << PRECISION) - 1))


@compiled()
def _share_in_format_1(seen):
    """The same with the rounding of format 1."""
    one = seen[1] / (seen[0] + seen[1])
    return np.uint64(min(max(one * (1 << PRECISION), 1.0), (1 << PRECISION) - 1.0))


@compiled()
def code(symbols, n_bits, width, neighbors, data, decoding, format_1):
    """Write ``symbols`` (P, W) to bytes, or read them back from ``data`` in place.

    ``n_bits`` (W,) are the bits of each symbol of a block; blocks stand in rows of ``width``.
    ``format_1`` takes probabilities as files of that format do. Returns the bytes and how many
    there are. Writing and reading share this code, so they cannot disagree.
    """
    P, W = symbols.shape
    first = np.zeros(W + 1, np.int64)
    for w in range(W):
        first[w + 1] = first[w] + (1 << n_bits[w]) * 9
    seen = np.full((first[W], 2), BEFORE, np.int64)
    rounded = np.full((first[W] if format_1 else 0, 2), BEFORE / SEEN)
    out = np.empty(16, np.uint8)
    size = 0
    low, high, window, at = np.uint64(0), np.uint64(0xFFFFFFFF), np.uint64(0), 0
    if decoding:
        for _ in range(4):
            byte = data[at] if at < len(data) else np.uint8(0)
            window = (window << np.uint64(8)) | np.uint64(byte)
            at += 1
    for p in range(P):
        for w in range(W):
            left, above = np.int64(-1), np.int64(-1)
            if neighbors and p % width > 0:
                left = symbols[p - 1, w]
            if neighbors and p >= width:
                above = symbols[p - width, w]
            value = np.int64(0)
            for b in range(n_bits[w] - 1, -1, -1):
                about = 3 * _opinion(left, value, b) + _opinion(above, value, b)
                node = (np.int64(1) << (n_bits[w] - 1 - b)) + value
                context = first[w] + node * 9 + about
                if format_1:
                    share = _share_in_format_1(rounded[context])
                else:
                    share = _share_of_ones(seen[context])
                middle = low + (((high - low) * share) >> np.uint64(PRECISION))
                if decoding:
                    bit = np.int64(1) if window <= middle else np.int64(0)
                else:
                    bit = (symbols[p, w] >> b) & 1
                if bit:
                    high = middle
                else:
                    low = middle + np.uint64(1)
                seen[context, bit] += SEEN
                if format_1:
                    rounded[context, bit] += 1.0
                value = 2 * value + bit
                while (low ^ high) & np.uint64(0xFF000000) == 0:
                    if decoding:
                        byte = data[at] if at < len(data) else np.uint8(0)
                        window = (window << np.uint64(8)) & np.uint64(0xFFFFFFFF)
                        window |= np.uint64(byte)
                        at += 1
                    else:
                        if size + 8 > len(out):
                            out = np.append(out, np.empty_like(out))
                        out[size] = np.uint8(high >> np.uint64(24))
                        size += 1
                    low = (low << np.uint64(8)) & np.uint64(0xFFFFFFFF)
                    high = ((high << np.uint64(8)) & np.uint64(0xFFFFFFFF)) | np.uint64(0xFF)
            if decoding:
                symbols[p, w] = value
    # One byte between low and high identifies the interval: further bytes are read as zeros.
    if not decoding:
        out[size] = np.uint8((low >> np.uint64(24)) + np.uint64(1))
        size += 1
    return out, size
