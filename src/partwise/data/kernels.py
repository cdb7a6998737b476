"""Compiled loops over stored entries; rows of the states' axis are contiguous in every table.

``place[d]`` is the column's row in the own-part table if ``parts[d] >= 0``, else in the shared one.
"""

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def score_codes(indptr, indices, codes, parts, place, first, own, shared, out):
    """out[r] += table[column, code] for every entry of row r."""
    for r in range(len(indptr) - 1):
        row = out[r]
        for e in range(indptr[r], indptr[r + 1]):
            d = indices[e]
            k = parts[d]
            if k >= 0:
                table = own[place[d], codes[e]]
                start = first[k]
                part = row[start : first[k + 1]]
                for j in range(len(part)):
                    part[j] += table[j]
            else:
                table = shared[place[d], codes[e]]
                for s in range(len(row)):
                    row[s] += table[s]


@numba.njit(nogil=True, cache=True)
def collect_codes(indptr, indices, codes, parts, place, first, m, own, shared):
    """table[column, code] += m[r] for every entry of row r."""
    for r in range(len(indptr) - 1):
        row = m[r]
        for e in range(indptr[r], indptr[r + 1]):
            d = indices[e]
            k = parts[d]
            if k >= 0:
                table = own[place[d], codes[e]]
                part = row[first[k] : first[k + 1]]
                for j in range(len(part)):
                    table[j] += part[j]
            else:
                table = shared[place[d], codes[e]]
                for s in range(len(row)):
                    table[s] += row[s]


@numba.njit(nogil=True, cache=True)
def score_powers(indptr, indices, values, start, parts, place, first, own, shared, out):
    """out[r] += sum_p x^p table[p, column], p from ``start``, for every entry x of row r."""
    for r in range(len(indptr) - 1):
        row = out[r]
        for e in range(indptr[r], indptr[r + 1]):
            d = indices[e]
            k = parts[d]
            power = values[e] ** start
            for p in range(start, len(own)):
                if k >= 0:
                    table = own[p, place[d]]
                    part = row[first[k] : first[k + 1]]
                    for j in range(len(part)):
                        part[j] += power * table[j]
                else:
                    table = shared[p, place[d]]
                    for s in range(len(row)):
                        row[s] += power * table[s]
                power *= values[e]


@numba.njit(nogil=True, cache=True)
def collect_powers(indptr, indices, values, start, parts, place, first, m, own, shared):
    """table[p, column] += x^p m[r], p from ``start``, for every entry x of row r."""
    for r in range(len(indptr) - 1):
        row = m[r]
        for e in range(indptr[r], indptr[r + 1]):
            d = indices[e]
            k = parts[d]
            power = values[e] ** start
            for p in range(start, len(own)):
                if k >= 0:
                    table = own[p, place[d]]
                    part = row[first[k] : first[k + 1]]
                    for j in range(len(part)):
                        table[j] += power * part[j]
                else:
                    table = shared[p, place[d]]
                    for s in range(len(row)):
                        table[s] += power * row[s]
                power *= values[e]


@numba.njit(nogil=True, cache=True)
def score_rows(indptr, densities, first, G, out):
    """out[r, s] += G[part of s, e] densities[e, s] for every entry e of row r."""
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            for k in range(len(first) - 1):
                for s in range(first[k], first[k + 1]):
                    out[r, s] += G[k, e] * densities[e, s]


@numba.njit(nogil=True, cache=True)
def expect_rows(indptr, densities, first, m, out):
    """out[k, e] = sum over states of part k of m[r, s] densities[e, s]."""
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            for k in range(len(first) - 1):
                total = 0.0
                for s in range(first[k], first[k + 1]):
                    total += m[r, s] * densities[e, s]
                out[k, e] = total


@numba.njit(nogil=True, cache=True)
def entry_densities(indices, codes, table, out):
    """out[e] = table[column, code] of entry e."""
    for e in range(len(indices)):
        source = table[indices[e], codes[e]]
        for s in range(len(source)):
            out[e, s] = source[s]


@numba.njit(nogil=True, cache=True)
def collect_rows(indptr, indices, statistics, first, m, G, out):
    """out[p, column, s] += T_p(x) G[part of s, e] m[r, s] for every entry e of row r."""
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            d = indices[e]
            for p in range(len(statistics)):
                t = statistics[p, e]
                if t != 0:
                    for k in range(len(first) - 1):
                        w = t * G[k, e]
                        if w != 0:
                            for s in range(first[k], first[k + 1]):
                                out[p, d, s] += w * m[r, s]


def no_table(n_axes: int, dtype: np.dtype) -> np.ndarray:
    """Empty table, for a kernel call in which no column needs it."""
    return np.zeros((1,) * n_axes, dtype)
