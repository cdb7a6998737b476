"""Compiled loops, for dense columns of one part and for stored entries.

The maps over entries walk chosen columns one by one (and value by value), so that a table row stays
at hand while the rows' scores or posteriors, small enough for a core's cache, are gathered. Rows of
the states' axis are contiguous in every table.
"""

from partwise._compiled import compiled

# Rows that the dense loops work on at a time, so that a part's scores stay in the nearest cache.
TILE = 512

# Rows that change places with columns at a time; as a constant it makes straight code.
EDGE = 8


@compiled()
def encode_numbers(rows, shift, scale, most, out):
    """out[d, c] = (rows[c, d] - shift[d]) / scale[d], within +-most; tells how many are NaN.

    Halves are subtracted, since a difference may be beyond the largest number.
    """
    n, D = rows.shape
    holes = 0
    for lo in range(0, n - EDGE + 1, EDGE):
        for d in range(D):
            first, unit = 0.5 * shift[d], 2.0 / scale[d]
            for c in range(EDGE):
                z = (0.5 * rows[lo + c, d] - first) * unit
                z = most if z > most else z
                z = -most if z < -most else z
                holes += z != z
                out[d, lo + c] = z
    for c in range(n - n % EDGE, n):
        for d in range(D):
            z = (0.5 * rows[c, d] - 0.5 * shift[d]) * (2.0 / scale[d])
            z = most if z > most else z
            z = -most if z < -most else z
            holes += z != z
            out[d, c] = z
    return holes


@compiled(fastmath=True)
def score_squares(Z, at, linear, square, out):
    """out[j, c] += sum_d z (linear[j, d] + z square[j, d]), z = Z[at[d], c].

    For the few states of a part, matrix products wait for memory; here squares are made in
    registers, and four columns at a time share the pass over the scores.
    """
    D, n = len(at), Z.shape[1]
    for lo in range(0, n, TILE):
        hi = min(lo + TILE, n)
        for d in range(0, D - 3, 4):
            z0, z1 = Z[at[d], lo:hi], Z[at[d + 1], lo:hi]
            z2, z3 = Z[at[d + 2], lo:hi], Z[at[d + 3], lo:hi]
            for j in range(len(out)):
                row = out[j, lo:hi]
                a0, a1, a2, a3 = linear[j, d], linear[j, d + 1], linear[j, d + 2], linear[j, d + 3]
                b0, b1, b2, b3 = square[j, d], square[j, d + 1], square[j, d + 2], square[j, d + 3]
                for c in range(hi - lo):
                    row[c] += (
                        z0[c] * (a0 + b0 * z0[c])
                        + z1[c] * (a1 + b1 * z1[c])
                        + z2[c] * (a2 + b2 * z2[c])
                        + z3[c] * (a3 + b3 * z3[c])
                    )
        for d in range(D - D % 4, D):
            z = Z[at[d], lo:hi]
            for j in range(len(out)):
                row = out[j, lo:hi]
                a, b = linear[j, d], square[j, d]
                for c in range(hi - lo):
                    row[c] += z[c] * (a + b * z[c])


@compiled(fastmath=True)
def collect_squares(Z, at, m, linear, square):
    """linear[j, d] += sum_c m[j, c] z, square[j, d] += sum_c m[j, c] z^2, z = Z[at[d], c]."""
    D, n = len(at), Z.shape[1]
    zero = Z.dtype.type(0)
    for lo in range(0, n, TILE):
        hi = min(lo + TILE, n)
        for d in range(0, D - 1, 2):
            y, z = Z[at[d], lo:hi], Z[at[d + 1], lo:hi]
            for j in range(len(m)):
                row = m[j, lo:hi]
                a, b, e, f = zero, zero, zero, zero
                for c in range(hi - lo):
                    t, u = row[c] * y[c], row[c] * z[c]
                    a += t
                    b += t * y[c]
                    e += u
                    f += u * z[c]
                linear[j, d] += a
                square[j, d] += b
                linear[j, d + 1] += e
                square[j, d + 1] += f
        for d in range(D - D % 2, D):
            z = Z[at[d], lo:hi]
            for j in range(len(m)):
                row = m[j, lo:hi]
                a, b = zero, zero
                for c in range(hi - lo):
                    t = row[c] * z[c]
                    a += t
                    b += t * z[c]
                linear[j, d] += a
                square[j, d] += b


@compiled(fastmath=True)
def score_codes(columns, pointers, rows, table, out):
    """out[r] += table[v, i] for every entry of value v in the i-th column; entries so sorted."""
    V = len(table)
    for i in range(len(columns)):
        for v in range(V):
            source = table[v, i]
            at = columns[i] * V + v
            for e in range(pointers[at], pointers[at + 1]):
                row = out[rows[e]]
                for s in range(len(source)):
                    row[s] += source[s]


@compiled(fastmath=True)
def collect_codes(columns, pointers, rows, m, table):
    """table[v, i] += m[r] for every entry of value v in the i-th column; entries so sorted."""
    V = len(table)
    for i in range(len(columns)):
        for v in range(V):
            target = table[v, i]
            at = columns[i] * V + v
            for e in range(pointers[at], pointers[at + 1]):
                row = m[rows[e]]
                for s in range(len(target)):
                    target[s] += row[s]


@compiled(fastmath=True)
def score_statistics(columns, pointers, rows, T, start, table, out):
    """out[r] += sum_p T_p table[p, i], p from ``start``, for every entry of the i-th column.

    ``T`` (P - 1, entries) leaves out T_0 = 1.
    """
    for i in range(len(columns)):
        for e in range(pointers[columns[i]], pointers[columns[i] + 1]):
            row = out[rows[e]]
            for p in range(start, len(table)):
                source = table[p, i]
                t = T[p - 1, e] if p > 0 else T.dtype.type(1)
                for s in range(len(source)):
                    row[s] += t * source[s]


@compiled(fastmath=True)
def collect_statistics(columns, pointers, rows, T, start, m, table):
    """table[p, i] += T_p m[r], p from ``start``, for every entry of the i-th column."""
    for i in range(len(columns)):
        for e in range(pointers[columns[i]], pointers[columns[i] + 1]):
            row = m[rows[e]]
            for p in range(start, len(table)):
                target = table[p, i]
                t = T[p - 1, e] if p > 0 else T.dtype.type(1)
                for s in range(len(target)):
                    target[s] += t * row[s]


@compiled(fastmath=True)
def score_presence(columns, pointers, rows, table, out):
    """out[r] += table[i] for every entry of the i-th column."""
    for i in range(len(columns)):
        source = table[i]
        for e in range(pointers[columns[i]], pointers[columns[i] + 1]):
            row = out[rows[e]]
            for s in range(len(source)):
                row[s] += source[s]


@compiled(fastmath=True)
def collect_presence(columns, pointers, rows, m, table):
    """table[i] += m[r] for every entry of the i-th column."""
    for i in range(len(columns)):
        target = table[i]
        for e in range(pointers[columns[i]], pointers[columns[i] + 1]):
            row = m[rows[e]]
            for s in range(len(target)):
                target[s] += row[s]


@compiled()
def score_rows(indptr, densities, first, G, out):
    """out[r, s] += G[part of s, e] densities[e, s] for every entry e of row r."""
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            for k in range(len(first) - 1):
                for s in range(first[k], first[k + 1]):
                    out[r, s] += G[k, e] * densities[e, s]


@compiled()
def expect_rows(indptr, densities, first, m, out):
    """out[k, e] = sum over states of part k of m[r, s] densities[e, s]."""
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            for k in range(len(first) - 1):
                total = 0.0
                for s in range(first[k], first[k + 1]):
                    total += m[r, s] * densities[e, s]
                out[k, e] = total


@compiled()
def entry_densities(indices, codes, table, out):
    """out[e] = table[code, column] of entry e."""
    for e in range(len(indices)):
        source = table[codes[e], indices[e]]
        for s in range(len(source)):
            out[e, s] = source[s]


@compiled()
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
