"""Compiled loops over rows; they release the interpreter lock, so blocks run in parallel.

A code is a row of values, one a feature; value v > 0 of feature k is atom k (J - 1) + v - 1 in the
arrays over atoms. ``of`` numbers each row's pattern of missing entries, and with it its matrix G.
"""

import numpy as np

from partwise._compiled import compiled


@compiled()
def energies(grams, of, linear, values):
    """s'Gs + h's of every row's code."""
    n, K = values.shape
    out = np.zeros(n)
    if K == 0:
        return out
    Q = linear.shape[1] // K
    on = np.empty(K, np.int64)
    for r in range(n):
        G = grams[of[r]]
        count = 0
        total = 0.0
        for k in range(K):
            if values[r, k] > 0:
                a = k * Q + values[r, k] - 1
                total += linear[r, a] + G[a, a]
                for i in range(count):
                    total += 2.0 * G[a, on[i]]
                on[count] = a
                count += 1
        out[r] = total
    return out


@compiled()
def factorise(G, t, Q):
    """Upper R with R'R = G + t, features in the order in which the search decides them last.

    The feature that is least determined by itself comes first and so is decided last: the search
    begins with choices that cost much when wrong. Returns R and the features in their order.
    """
    A = len(G)
    K = A // Q
    M = G.copy()
    for i in range(A):
        M[i, i] += t
    R = np.zeros((A, A))
    order = np.arange(K)
    for k in range(K):
        best, least = k, np.inf
        for g in range(k, K):
            size = 0.0
            for i in range(g * Q, (g + 1) * Q):
                size += M[i, i]
            if size < least:
                best, least = g, size
        if best != k:
            order[k], order[best] = order[best], order[k]
            for q in range(Q):
                i, j = k * Q + q, best * Q + q
                for c in range(A):
                    M[i, c], M[j, c] = M[j, c], M[i, c]
                for c in range(A):
                    M[c, i], M[c, j] = M[c, j], M[c, i]
                for c in range(k * Q):
                    R[c, i], R[c, j] = R[c, j], R[c, i]
        for p in range(k * Q, (k + 1) * Q):
            pivot = np.sqrt(M[p, p])
            R[p, p] = pivot
            for j in range(p + 1, A):
                R[p, j] = M[p, j] / pivot
            for i in range(p + 1, A):
                for j in range(p + 1, A):
                    M[i, j] -= R[p, i] * R[p, j]
    return R, order


@compiled()
def search(R, Y, begin, best, J, most_nodes):
    """Depth-first search for the code s that is least in |y - R s|^2, nearer branches first.

    Every row of ``Y`` (n, A) is a y; ``begin`` (n, K) and ``best`` (n,) are a code to be bettered
    and its square, changed in place. Returns what no code is below, and the nodes looked at.

    Features are decided from the last to the first. The squares of the decided rows of y - R s
    only grow, so a branch that has reached the best square known is left, and with it all branches
    that are farther. When the nodes run out, the least square at which a branch was left open is
    the bound.
    """
    n, A = Y.shape
    K = begin.shape[1]
    Q = J - 1
    lower = np.empty(n)
    nodes = np.zeros(n, np.int64)
    columns = R.T.copy()
    left = np.empty((K, A))  # y less what is decided, as each level found it
    reached = np.empty((K, J))  # squares after each choice at a level, in rising order
    choice = np.empty((K, J), np.int64)
    tried = np.zeros(K, np.int64)
    code = np.zeros(K, np.int64)
    for r in range(n):
        level = K - 1
        left[level] = Y[r]
        arrived, so_far = True, 0.0
        open_at = np.inf
        while True:
            if arrived:
                _choices(columns, left[level], level * Q, so_far, reached[level], choice[level])
                tried[level] = 0
                arrived = False
            at = tried[level]
            if at == J or reached[level, at] >= best[r]:
                level += 1
                if level == K:
                    break
                continue
            if nodes[r] >= most_nodes:
                for above in range(level, K):
                    if tried[above] < J:
                        open_at = min(open_at, reached[above, tried[above]])
                break
            nodes[r] += 1
            tried[level] += 1
            code[level] = choice[level, at]
            so_far = reached[level, at]
            if level == 0:
                best[r] = so_far
                begin[r] = code
                continue
            end = level * Q
            if code[level] > 0:
                column = columns[end + code[level] - 1]
                for i in range(end):
                    left[level - 1, i] = left[level, i] - column[i]
            else:
                left[level - 1, :end] = left[level, :end]
            level -= 1
            arrived = True
        lower[r] = min(best[r], open_at)
    return lower, nodes


@compiled()
def _choices(columns, left, first, so_far, reached, choice):
    """Squares after each value of the feature whose rows begin at ``first``, in rising order."""
    J = len(reached)
    rest = 0.0  # squares of the rows that a value does not reach: R is triangular
    for i in range(first, first + J - 1):
        rest += left[i] * left[i]
    for v in range(J):
        square = so_far + rest
        if v > 0:
            last = first + v - 1
            rest -= left[last] * left[last]
            square = so_far + max(rest, 0.0)
            column = columns[last]
            for i in range(first, last + 1):
                away = left[i] - column[i]
                square += away * away
        j = v
        while j > 0 and reached[j - 1] > square:
            reached[j] = reached[j - 1]
            choice[j] = choice[j - 1]
            j -= 1
        reached[j] = square
        choice[j] = v


@compiled()
def mean_field(grams, of, linear, start, orders, precisions, K):
    """Means of every row's values, features updated in turn while the noise falls; codes (n, K).

    ``orders`` (T, K) are the orders of the T sweeps, ``precisions`` (T,) their 1 / (2 sigma^2).
    """
    n, A = linear.shape
    Q = A // max(K, 1)
    values = np.zeros((n, K), np.int64)
    m = np.empty(A)
    field = np.empty(A)
    cost = np.empty(Q)
    for r in range(n):
        G = grams[of[r]]
        m[:] = start
        for a in range(A):
            field[a] = linear[r, a] + G[a, a]
            for b in range(A):
                field[a] += 2.0 * G[a, b] * m[b]
            for b in range(a // Q * Q, a // Q * Q + Q):
                field[a] -= 2.0 * G[a, b] * m[b]  # a feature's values exclude each other
        for t in range(len(orders)):
            for k in orders[t]:
                first = k * Q
                least = 0.0
                for q in range(Q):
                    cost[q] = precisions[t] * field[first + q]
                    least = min(least, cost[q])
                total = np.exp(least)
                for q in range(Q):
                    cost[q] = np.exp(least - cost[q])
                    total += cost[q]
                for q in range(Q):
                    a = first + q
                    change = cost[q] / total - m[a]
                    if change != 0.0:
                        _shift(field, G, a, first, Q, 2.0 * change)
                        m[a] += change
        for k in range(K):
            most = 1.0
            for q in range(Q):
                most -= m[k * Q + q]
            for q in range(Q):
                if m[k * Q + q] > most:
                    most = m[k * Q + q]
                    values[r, k] = q + 1
    return values


@compiled()
def _shift(field, G, a, first, Q, amount):
    """Add G[a] amount to the fields of all other features."""
    row = G[a]
    for b in range(first):
        field[b] += row[b] * amount
    for b in range(first + Q, len(field)):
        field[b] += row[b] * amount


@compiled()
def gibbs(grams, of, linear, start, orders, uniforms, precisions):
    """Samples of every row's values while the noise falls; the least energy found wins."""
    n, A = linear.shape
    K = len(start)
    Q = A // max(K, 1)
    best = np.empty((n, K), np.int64)
    values = np.empty(K, np.int64)
    field = np.empty(A)
    weight = np.empty(Q + 1)
    for r in range(n):
        G = grams[of[r]]
        for a in range(A):
            field[a] = linear[r, a] + G[a, a]
        energy = 0.0
        for k in range(K):
            values[k] = start[k]
            if start[k] > 0:
                a = k * Q + start[k] - 1
                energy += field[a]
                _shift(field, G, a, k * Q, Q, 2.0)
        least = energy
        best[r] = values
        for t in range(len(orders)):
            for k in orders[t]:
                first = k * Q
                low = 0.0
                for q in range(Q):
                    low = min(low, precisions[t] * field[first + q])
                weight[0] = np.exp(low)
                for q in range(Q):
                    weight[q + 1] = weight[q] + np.exp(low - precisions[t] * field[first + q])
                u = uniforms[t, k] * weight[Q]
                now = 0
                while now < Q and weight[now] <= u:
                    now += 1
                old = values[k]
                if now == old:
                    continue
                if old > 0:
                    energy -= field[first + old - 1]
                    _shift(field, G, first + old - 1, first, Q, -2.0)
                if now > 0:
                    energy += field[first + now - 1]
                    _shift(field, G, first + now - 1, first, Q, 2.0)
                values[k] = now
                if energy < least:
                    least = energy
                    best[r] = values
    return best


@compiled()
def _softplus(x):
    return max(x, 0.0) + np.log1p(np.exp(-abs(x)))


@compiled()
def propagate(grams, of, linear, orders, precisions):
    """Belief propagation among on-off features; the least energy of the states met on the way.

    Messages are log ratios: M[i, j] = log lambda_ij(1) / lambda_ij(0), from j to i (17).
    """
    n, K = linear.shape
    best = np.zeros((n, K), np.int64)
    M = np.empty((K, K))
    h = np.empty(K)
    incoming = np.empty(K)
    state = np.empty(K, np.int64)
    for r in range(n):
        G = grams[of[r]]
        beta = precisions[0]
        for i in range(K):
            h[i] = linear[r, i] + G[i, i]
        for i in range(K):
            incoming[i] = 0.0
            for j in range(K):
                M[i, j] = 0.0
                if j != i:
                    M[i, j] = _softplus(-beta * (h[j] + 2.0 * G[i, j])) - _softplus(-beta * h[j])
                    incoming[i] += M[i, j]
        least = 0.0
        for t in range(len(orders)):
            beta = precisions[t]
            for i in orders[t]:
                for j in range(K):
                    if j != i:
                        a = incoming[j] - M[j, i] - beta * h[j]
                        new = _softplus(a - 2.0 * beta * G[i, j]) - _softplus(a)
                        incoming[i] += new - M[i, j]
                        M[i, j] = new
                state[i] = 1 if incoming[i] - beta * h[i] > 0 else 0
            energy = _energy(G, h, state)
            if energy < least:
                least = energy
                best[r] = state
    return best


@compiled()
def _energy(G, h, state):
    """Energy of on-off features, the diagonal of G being in h."""
    total = 0.0
    for i in range(len(state)):
        if state[i]:
            total += h[i]
            for j in range(i):
                if state[j]:
                    total += 2.0 * G[i, j]
    return total


@compiled()
def revise(grams, of, linear, orders, tol):
    """Belief revision among on-off features: codes, and which rows' messages came to rest.

    M[i, j] = lambda_ij(1) - lambda_ij(0), from j to i (22). A row stops when no message of a sweep
    changes by more than ``tol`` times its largest field.
    """
    n, K = linear.shape
    best = np.zeros((n, K), np.int64)
    converged = np.zeros(n, np.bool_)
    M = np.empty((K, K))
    h = np.empty(K)
    incoming = np.empty(K)
    state = np.empty(K, np.int64)
    for r in range(n):
        G = grams[of[r]]
        size = 0.0
        for i in range(K):
            h[i] = linear[r, i] + G[i, i]
            size = max(size, abs(h[i]))
        for i in range(K):
            incoming[i] = 0.0
            for j in range(K):
                M[i, j] = 0.0
                if j != i:
                    M[i, j] = min(0.0, h[j] + 2.0 * G[i, j]) - min(0.0, h[j])
                    incoming[i] += M[i, j]
        least = 0.0
        for t in range(len(orders)):
            moved = 0.0
            for i in orders[t]:
                for j in range(K):
                    if j != i:
                        a = h[j] + incoming[j] - M[j, i]
                        new = min(0.0, a + 2.0 * G[i, j]) - min(0.0, a)
                        moved = max(moved, abs(new - M[i, j]))
                        incoming[i] += new - M[i, j]
                        M[i, j] = new
                state[i] = 1 if h[i] + incoming[i] < 0 else 0
            energy = _energy(G, h, state)
            if energy < least:
                least = energy
                best[r] = state
            if moved <= tol * size:
                converged[r] = True
                break
    return best, converged


@compiled()
def multistage(grams, of, linear, stages, J, kept):
    """Codes decided feature by feature, in the order of ``stages``; undecided ones at their mean.

    ``kept`` partial codes go on from a stage to the next. Moving atom a by t changes the energy by
    t (g_a + t G_aa), where g = h + 2 G z belongs to the partial code z.
    """
    n, A = linear.shape
    K, Q = len(stages), J - 1
    values = np.zeros((n, K), np.int64)
    codes, next_codes = np.zeros((kept, K), np.int64), np.zeros((kept, K), np.int64)
    slopes, next_slopes = np.empty((kept, A)), np.empty((kept, A))
    energy, next_energy = np.empty(kept), np.empty(kept)
    change = np.empty((kept, J))
    for r in range(n):
        G = grams[of[r]]
        for a in range(A):
            slopes[0, a] = linear[r, a]
            for b in range(A):
                slopes[0, a] += 2.0 * G[a, b] / J
        energy[0] = 0.0
        size = 1
        for k in stages:
            lo = k * Q
            own = 0.0  # of all values of the feature at their means
            for a in range(lo, lo + Q):
                for b in range(lo, lo + Q):
                    own += G[a, b] / (J * J)
            for i in range(size):
                off = energy[i] + own
                for a in range(lo, lo + Q):
                    off -= slopes[i, a] / J
                change[i, 0] = off
                for v in range(1, J):
                    a = lo + v - 1
                    pull = 0.0
                    for b in range(lo, lo + Q):
                        pull += G[a, b] / J
                    change[i, v] = off + slopes[i, a] + G[a, a] - 2.0 * pull
            flat = change[:size].copy().ravel()
            order = np.argsort(flat, kind="mergesort")
            new = min(kept, len(flat))
            for j in range(new):
                i, v = order[j] // J, order[j] % J
                next_energy[j] = flat[order[j]]
                next_codes[j] = codes[i]
                next_codes[j, k] = v
                for a in range(A):
                    g = slopes[i, a]
                    for b in range(lo, lo + Q):
                        g -= 2.0 * G[a, b] / J
                    if v > 0:
                        g += 2.0 * G[a, lo + v - 1]
                    next_slopes[j, a] = g
            size = new
            codes, next_codes = next_codes, codes
            slopes, next_slopes = next_slopes, slopes
            energy, next_energy = next_energy, energy
        values[r] = codes[0]
    return values
