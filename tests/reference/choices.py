"""What the references of MCVQ and MCFA share: how rows and columns select parts.

``p`` is the problem and ``f`` the fit of either; see there.
"""

import math
from dataclasses import replace

from scipy import special


def gate(p, f, c, d, k):
    return f.g[c][d][k] if p.gating == "factorised" else f.g[d][k]


def softmax(logits):
    top = max(logits)
    weights = [math.exp(v - top) for v in logits]
    return [w / sum(weights) for w in weights]


def log_choice(counts, alpha):
    """Expected log probabilities of a choice; log shares at maximum likelihood."""
    if alpha > 0:
        total = special.digamma(sum(counts) + alpha * len(counts))
        return [special.digamma(n + alpha) - total for n in counts]
    total = max(sum(counts), 1e-300)  # of a choice nobody took, or nobody made, next to nothing
    return [math.log(max(n / total, 1e-300)) for n in counts]


def selections(p, f, log_gates, expected_log):
    """Posterior of the part of every entry, where rows select parts for themselves."""
    g = []
    for c in p.rows:
        row = []
        for d in p.columns:
            log_a = log_gates(p, f, d)
            extra = [expected_log(p, f, c, d, k) if p.seen(c, d) else 0.0 for k in p.parts]
            row.append(softmax([log_a[k] + extra[k] for k in p.parts]))
        g.append(row)
    return g


def update_a(p, f):
    """How many choices of each part the prior of the gates has seen."""
    counts = []
    for d in p.columns:
        if p.gating == "tied":
            counts.append(list(f.g[d]))
        else:
            rows = [c for c in p.rows if p.seen(c, d)]
            counts.append([sum(p.weights[c] * gate(p, f, c, d, k) for c in rows) for k in p.parts])
    return replace(f, gate_counts=counts)


def relative(q, log_p):
    """sum q (log q - log p)."""
    return sum(a * (math.log(a) - b) for a, b in zip(q, log_p, strict=True) if a > 0)


def dirichlet_divergence(alpha, alpha0):
    total = special.gammaln(sum(alpha)) - special.gammaln(sum(alpha0))
    for a, a0 in zip(alpha, alpha0, strict=True):
        total += special.gammaln(a0) - special.gammaln(a)
        total += (a - a0) * (special.digamma(a) - special.digamma(sum(alpha)))
    return total


def gamma_divergence(alpha, beta, alpha0, beta0):
    return (
        (alpha - alpha0) * special.digamma(alpha)
        - special.gammaln(alpha)
        + special.gammaln(alpha0)
        + alpha0 * (math.log(beta) - math.log(beta0))
        + alpha * (beta0 - beta) / beta
    )
