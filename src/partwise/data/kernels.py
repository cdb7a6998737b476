"""Compiled loops over stored entries; rows of the states' axis are contiguous in every table.

Maps over all rows walk chosen columns one by one (and value by value), so that a table row stays at
hand while the rows' scores or posteriors, small enough for a core's cache, are gathered.
"""

import numba


@numba.njit(nogil=True, cache=True, fastmath=True)
def score_codes(columns, pointers, rows, table, out):
    """out[r] += table[i, v] for every entry of value v in the i-th column; entries so sorted."""
    V = table.shape[1]
    for i in range(len(columns)):
        for v in range(V):
            source = table[i, v]
            at = columns[i] * V + v
            for e in range(pointers[at], pointers[at + 1]):
                row = out[rows[e]]
                for s in range(len(source)):
                    row[s] += source[s]


@numba.njit(nogil=True, cache=True, fastmath=True)
def collect_codes(columns, pointers, rows, m, table):
    """table[i, v] += m[r] for every entry of value v in the i-th column; entries so sorted."""
    V = table.shape[1]
    for i in range(len(columns)):
        for v in range(V):
            target = table[i, v]
            at = columns[i] * V + v
            for e in range(pointers[at], pointers[at + 1]):
                row = m[rows[e]]
                for s in range(len(target)):
                    target[s] += row[s]


@numba.njit(nogil=True, cache=True, fastmath=True)
def score_powers(columns, pointers, rows, values, start, table, out):
    """out[r] += sum_p x^p table[p, i], p from ``start``, for every entry x of the i-th column."""
    for i in range(len(columns)):
        for e in range(pointers[columns[i]], pointers[columns[i] + 1]):
            row = out[rows[e]]
            power = values[e] if start == 1 else values[e] * 0 + 1
            for p in range(start, len(table)):
                source = table[p, i]
                for s in range(len(source)):
                    row[s] += power * source[s]
                power *= values[e]


@numba.njit(nogil=True, cache=True, fastmath=True)
def collect_powers(columns, pointers, rows, values, start, m, table):
    """table[p, i] += x^p m[r], p from ``start``, for every entry x of the i-th column."""
    for i in range(len(columns)):
        for e in range(pointers[columns[i]], pointers[columns[i] + 1]):
            row = m[rows[e]]
            power = values[e] if start == 1 else values[e] * 0 + 1
            for p in range(start, len(table)):
                target = table[p, i]
                for s in range(len(target)):
                    target[s] += power * row[s]
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
