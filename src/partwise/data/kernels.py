"""Compiled loops over stored entries; rows of the states' axis are contiguous in every table.

Maps over all rows walk the entries column by column (and value by value), so that a table row stays
in registers while the rows' scores or posteriors, small enough for a core's cache, are gathered.
``place[d]`` is the column's row in the own-part table if ``parts[d] >= 0``, else in the shared one.
"""

import numba


@numba.njit(nogil=True, cache=True, fastmath=True)
def score_codes(pointers, rows, parts, place, first, own, shared, out):
    """out[r] += table[column, value] for every entry of row r; entries sorted by both."""
    V = own.shape[1]
    for d in range(len(parts)):
        k = parts[d]
        for v in range(V):
            lo, hi = pointers[d * V + v], pointers[d * V + v + 1]
            if k >= 0:
                a, b = first[k], first[k + 1]
                table = own[place[d], v, : b - a]
                for e in range(lo, hi):
                    row = out[rows[e], a:b]
                    for j in range(len(table)):
                        row[j] += table[j]
            else:
                table = shared[place[d], v]
                for e in range(lo, hi):
                    row = out[rows[e]]
                    for j in range(len(table)):
                        row[j] += table[j]


@numba.njit(nogil=True, cache=True, fastmath=True)
def collect_codes(pointers, rows, parts, place, first, m, own, shared):
    """table[column, value] += m[r] for every entry of row r; entries sorted by both."""
    V = own.shape[1]
    for d in range(len(parts)):
        k = parts[d]
        for v in range(V):
            lo, hi = pointers[d * V + v], pointers[d * V + v + 1]
            if k >= 0:
                a, b = first[k], first[k + 1]
                table = own[place[d], v, : b - a]
                for e in range(lo, hi):
                    row = m[rows[e], a:b]
                    for j in range(len(table)):
                        table[j] += row[j]
            else:
                table = shared[place[d], v]
                for e in range(lo, hi):
                    row = m[rows[e]]
                    for j in range(len(table)):
                        table[j] += row[j]


@numba.njit(nogil=True, cache=True, fastmath=True)
def score_powers(pointers, rows, values, start, parts, place, first, own, shared, out):
    """out[r] += sum_p x^p table[p, column], p from ``start``, for every entry x of row r."""
    for d in range(len(parts)):
        k = parts[d]
        a, b = (first[k], first[k + 1]) if k >= 0 else (0, first[-1])
        for e in range(pointers[d], pointers[d + 1]):
            row = out[rows[e], a:b]
            x = values[e]
            power = x if start == 1 else x * 0 + 1
            for p in range(start, len(own)):
                table = own[p, place[d], : b - a] if k >= 0 else shared[p, place[d]]
                for j in range(len(row)):
                    row[j] += power * table[j]
                power *= x


@numba.njit(nogil=True, cache=True, fastmath=True)
def collect_powers(pointers, rows, values, start, parts, place, first, m, own, shared):
    """table[p, column] += x^p m[r], p from ``start``, for every entry x of row r."""
    for d in range(len(parts)):
        k = parts[d]
        a, b = (first[k], first[k + 1]) if k >= 0 else (0, first[-1])
        for e in range(pointers[d], pointers[d + 1]):
            row = m[rows[e], a:b]
            x = values[e]
            power = x if start == 1 else x * 0 + 1
            for p in range(start, len(own)):
                table = own[p, place[d], : b - a] if k >= 0 else shared[p, place[d]]
                for j in range(len(row)):
                    table[j] += power * row[j]
                power *= x


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
