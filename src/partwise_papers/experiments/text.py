"""Text: the NIPS papers of 1987 to 1999 (NIPS 5.3, its conclusion, thesis 3.3).

Word counts are normalized to the same number of words per document with Gaussian entries, as in the
paper, or taken as they are with Poisson entries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF, LatentDirichletAllocation, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.preprocessing import normalize

from partwise import MCVQ
from partwise.datasets import load_nips
from partwise_papers.experiments import register
from partwise_papers.experiments._models import fitted
from partwise_papers.registry import Array, Claim, Paper, Row, Setting

# Words in fewer papers are left out of the fast runs.
FAST_WORDS, FAST_PAPERS = 40, 700

# The two papers of Figure 7, and the words that its states predict more often than average.
FIGURE7 = {
    "Predictive Sequence Learning in Recurrent Neocortical Circuits": (
        "afferent lgn interneurons excitatory membrane ekf niranjan freitas kalman wp latent som "
        "detection search data ltp gerstner zador soma depression"
    ),
    "The Relevance Vector Machine": (
        "svms svm margin kernel risk hme svr svs hyperparameters kopf similarity classify classes "
        "classification class extraction net weights functions units"
    ),
}
N_WORDS = 6
N_NEAREST = 10


class Corpus(NamedTuple):
    """Counts of documents x words, the words, and what the documents are."""

    counts: Any
    words: Array
    titles: Array
    labels: Array  # section of the conference, -1 for none
    authors: list[list[str]]


@cache
def corpus(fast: bool) -> Corpus:
    """The papers; a fast run has some of them, and the commoner words."""
    data = load_nips()
    counts, words = data.data, data.vocab
    rows = np.arange(counts.shape[0])
    if fast:
        # The latest, among which are those of Figure 7.
        rows = rows[-FAST_PAPERS:]
        counts = counts[rows]
        common = np.flatnonzero((counts > 0).sum(axis=0) >= FAST_WORDS)
        counts, words = counts[:, common], words[common]
    known = np.array([name != "Uncategorised" for name in data.label_names])
    labels = np.where(known[data.label], data.label, -1)[rows]
    authors = [data.authors[i] for i in rows]
    return Corpus(sparse.csr_array(counts), words, data.titles[rows], labels, authors)


def normalized(counts: Any) -> Any:
    """Counts scaled to the same number of words per document."""
    scaled = sparse.csr_array(counts, copy=True)
    total = np.maximum(np.asarray(scaled.sum(axis=1)).ravel(), 1.0)
    scaled.data *= np.repeat(total.mean() / total, np.diff(scaled.indptr))
    return scaled


@cache
def gaussian_model(fast: bool) -> MCVQ:
    """MCVQ 8x8 of normalized counts."""
    model = MCVQ(8, 8, sparse_absent="zero", max_iter=30, random_state=0)
    return fitted(model, normalized(corpus(fast).counts))


@cache
def poisson_model(fast: bool) -> MCVQ:
    """MCVQ 8x8 of raw counts."""
    return fitted(MCVQ(8, 8, likelihood="poisson", random_state=0), corpus(fast).counts)


def conspicuousness(model: MCVQ) -> Array:
    """How far each state's prediction of each word is above the part's mean, (K, J, D).

    In standard deviations over the states, so that rare words count like common ones.
    """
    share = model.state_priors_[:, :, None]
    means = np.nan_to_num(model.means_)
    centre = (share * means).sum(axis=1, keepdims=True)
    spread = np.sqrt((share * (means - centre) ** 2).sum(axis=1, keepdims=True))
    return (means - centre) / np.maximum(spread, 1e-12)


def telling_words(model: MCVQ, words: Array, k: int, j: int, above: bool) -> str:
    """Words of a part that a state predicts most above, or below, the mean of the states."""
    own = np.flatnonzero(model.parts_ == k)
    means, share = model.means_[k][:, own], model.state_priors_[k]
    centre = share @ np.nan_to_num(means)
    # A difference in units of the root of the mean: neither the rarest nor the commonest words.
    away = (means[j] - centre) / np.sqrt(centre + 1e-9)
    order = np.argsort(-away if above else away)[:N_WORDS]
    return " ".join(str(words[own[i]]) for i in order if (away[i] > 0) == above)


@register(
    "nips_fig7",
    Paper(
        source="NIPS, Figure 7 (thesis, Figure 3.6)",
        did="MCVQ 8x8 on normalized counts of 14,265 words in 1740 papers, 15 iterations; for two "
        "papers, the words that the states of four VQs predict most above and below average.",
        differs="13,649 words in this file; with `--fast`, the latest 700 papers and words in at "
        "least 40 of them. The four parts whose states differ most from the average are shown. "
        "Among the words that the paper prints as above average, the fraction that is above "
        "average here is counted.",
        needs=("nips",),
    ),
)
def nips_fig7(setting: Setting) -> list[Row]:
    """Words of the states of two documents, MCVQ 8x8 with Gaussian and with Poisson entries."""
    texts = corpus(setting.fast)
    place = {str(word): d for d, word in enumerate(texts.words)}
    rows: list[Row] = []
    for name, make, counts in (
        ("Gaussian, normalized counts", gaussian_model, normalized(texts.counts)),
        ("Poisson, raw counts", poisson_model, texts.counts),
    ):
        setting(name)
        model = make(setting.fast)
        above = conspicuousness(model)
        for title, printed in FIGURE7.items():
            row = np.flatnonzero(texts.titles == title)
            states = model.predict_states(counts[row])[0]
            known = [place[word] for word in printed.split() if word in place]
            known = [d for d in known if model.parts_[d] >= 0]
            right = [above[model.parts_[d], states[model.parts_[d]], d] > 0 for d in known]
            rows.append(
                {
                    "entries": name,
                    "document": title,
                    "paper's words above average (%)": 100 * float(np.mean(right)),
                    "of": len(right),
                }
            )
            most = np.argsort([model.state_priors_[k, j] for k, j in enumerate(states)])[:4]
            rows += [
                {
                    "entries": name,
                    "document": title,
                    "part": f"part {k}, state {states[k]}",
                    "above": telling_words(model, texts.words, k, states[k], above=True),
                    "below": telling_words(model, texts.words, k, states[k], above=False),
                }
                for k in most
            ]
    return rows


@register(
    "nips_vocabulary",
    Paper(
        source="NIPS, Section 5.3",
        did="The gates segment the vocabulary into subsets of words with correlated frequencies.",
        differs="Raw counts with a Poisson likelihood; for every part its words, and those that "
        "differ most between its states.",
        needs=("nips",),
        claims=(
            Claim(
                says="The subsets of words have correlated frequencies.",
                untested="The paper shows words, and defines no measure; `nips_scores` has the "
                "perplexity.",
            ),
        ),
    ),
)
def nips_vocabulary(setting: Setting) -> list[Row]:
    """Parts of the vocabulary, and the words of their most frequent states, MCVQ 8x8."""
    setting("Poisson")
    model, words = poisson_model(setting.fast), corpus(setting.fast).words
    rows: list[Row] = []
    for k in range(model.n_parts_):
        order = np.argsort(-model.state_priors_[k])[:4]
        rows.append(
            {"part": k, "words": int(np.sum(model.parts_ == k))}
            | {
                f"state {place}": f"{100 * model.state_priors_[k, j]:.0f} %: "
                + telling_words(model, words, k, j, above=True)
                for place, j in enumerate(order)
            }
        )
    return rows


def thinned(counts: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Two halves of the tokens of every document, at random."""
    counts = sparse.csr_array(counts)
    seen = counts.copy()
    seen.data = rng.binomial(counts.data.astype(np.int64), 0.5).astype(float)
    rest = sparse.csr_array(counts - seen)
    seen.eliminate_zeros()
    rest.eliminate_zeros()
    return seen, rest


# Fits documents x words, and gives a function from documents to expected words, in any scale.
Maker = Callable[[Any, bool], Callable[[Any], Array]]


def _mcvq_poisson(seen: Any, fast: bool) -> Callable[[Any], Array]:
    model = fitted(MCVQ(8, 8, likelihood="poisson", random_state=0), seen)
    return lambda X: np.asarray(model.reconstruct(X))


def _mcvq_gaussian(seen: Any, fast: bool) -> Callable[[Any], Array]:
    model = fitted(MCVQ(8, 8, sparse_absent="zero", max_iter=30, random_state=0), normalized(seen))
    return lambda X: np.asarray(model.reconstruct(normalized(X)))


def _lda(seen: Any, fast: bool) -> Callable[[Any], Array]:
    model = LatentDirichletAllocation(64, max_iter=10 if fast else 30, random_state=0).fit(seen)
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return lambda X: model.transform(X) @ topics


def _nmf(seen: Any, fast: bool) -> Callable[[Any], Array]:
    model = NMF(
        64, beta_loss="kullback-leibler", solver="mu", init="nndsvda",
        max_iter=50 if fast else 200, random_state=0,
    )  # fmt: skip
    fitted(model, seen)

    def expected(X: Any) -> Array:
        return model.transform(X) @ model.components_

    return expected


def _unigram(seen: Any, fast: bool) -> Callable[[Any], Array]:
    total = np.asarray(seen.sum(axis=0)).ravel()
    return lambda X: np.tile(total, (X.shape[0], 1))


MAKERS: dict[str, Maker] = {
    "MCVQ 8x8, Poisson": _mcvq_poisson,
    "MCVQ 8x8, Gaussian": _mcvq_gaussian,
    "LatentDirichletAllocation 64": _lda,
    "NMF 64": _nmf,
    "frequency of the words": _unigram,
}

# Shares of the words' overall frequencies that may be mixed into a model's predictions.
SMOOTHING = (0.001, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


def perplexity(expected: Array, overall: Array, share: float, rest: Any) -> float:
    """Of the tokens in rest, under predictions with a share of the overall frequencies."""
    p = np.maximum(expected, 0.0) + 1e-12
    p = (1 - share) * p / p.sum(axis=1, keepdims=True) + share * overall
    rest = sparse.coo_array(rest)
    return float(np.exp(-np.sum(rest.data * np.log(p[rest.row, rest.col])) / rest.data.sum()))


@register(
    "nips_scores",
    Paper(
        source="NIPS, Section 5.3",
        did="Compares MCVQ with the aspect model and latent Dirichlet allocation in words only: "
        "MCVQ models the counts of a document rather than one word after another.",
        differs="Half of the tokens of every document are held out at random. Models are trained "
        "on the other half of four fifths of the documents; perplexity is that of the held-out "
        "half of the remaining documents, given their other half. Predictions of all models are "
        "mixed with the overall word frequencies, with a weight fitted to the held-out tokens of "
        "the training documents.",
        needs=("nips",),
    ),
)
def nips_scores(setting: Setting) -> list[Row]:
    """Perplexity of held-out words: MCVQ, latent Dirichlet allocation, NMF."""
    texts = corpus(setting.fast)
    rng = np.random.default_rng(0)
    seen, rest = thinned(texts.counts, rng)
    order = rng.permutation(seen.shape[0])
    train, test = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
    overall = np.asarray(seen[train].sum(axis=0)).ravel() + 0.5
    overall /= overall.sum()
    rows: list[Row] = []
    for name, make in MAKERS.items():
        setting(name)
        expect = make(seen[train], setting.fast)
        own = expect(seen[train])
        scores = {share: perplexity(own, overall, share, rest[train]) for share in SMOOTHING}
        share = min(scores, key=scores.__getitem__)
        found = perplexity(expect(seen[test]), overall, share, rest[test])
        rows.append({"model": name, "perplexity": found, "share of frequencies": share})
    return rows


def nearest_precision(features: Any, labels: Array) -> float:
    """Percentage of the nearest documents, by cosine, that are of the same section."""
    unit = normalize(features)
    likeness = unit @ unit.T
    likeness = likeness.toarray() if sparse.issparse(likeness) else np.asarray(likeness)
    known = np.flatnonzero(labels >= 0)
    likeness = likeness[np.ix_(known, known)]
    np.fill_diagonal(likeness, -np.inf)
    found = np.argsort(-likeness, axis=1, kind="stable")[:, :N_NEAREST]
    return 100 * float(np.mean(labels[known][found] == labels[known][:, None]))


@register(
    "nips_search",
    Paper(
        source="NIPS, Section 5.3",
        did="Suggests MCVQ for information retrieval; no numbers.",
        differs="Every paper with a section retrieves the ten nearest by cosine; precision is the "
        "fraction of the same section. There are dozens of sections, so all numbers are low.",
        needs=("nips",),
    ),
)
def nips_search(setting: Setting) -> list[Row]:
    """Retrieval of papers by the states of a paper: precision by section of the conference."""
    texts = corpus(setting.fast)
    counts, labels = texts.counts, texts.labels
    setting("MCVQ")
    features = {
        "states, MCVQ 8x8, Poisson": poisson_model(setting.fast).transform(counts),
        "states, MCVQ 8x8, Gaussian": gaussian_model(setting.fast).transform(normalized(counts)),
    }
    setting("scikit-learn")
    weighed = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    lda = LatentDirichletAllocation(64, max_iter=setting.choose(10, 30), random_state=0)
    features |= {
        "topics, LatentDirichletAllocation 64": lda.fit_transform(counts),
        "latent semantic analysis 64": TruncatedSVD(64, random_state=0).fit_transform(weighed),
        "all words, tf-idf": weighed,
        "chance": np.random.default_rng(0).normal(size=(counts.shape[0], 20)),
    }
    sizes = {name: X.shape[1] for name, X in features.items()}
    return [
        {
            "features": name,
            "numbers a document": sizes[name],
            f"of the {N_NEAREST} nearest in the same section (%)": nearest_precision(X, labels),
        }
        for name, X in features.items()
    ]


@register(
    "nips_authors",
    Paper(
        source="NIPS, Section 6",
        did="Proposes to group authors by their use of words; no experiment.",
        differs="Authors of at least four papers (two with `--fast`), with all their words added "
        "up; MCVQ 8x8 with eight classes. Groups are compared with the section that contains most "
        "of an author's papers.",
        needs=("nips",),
    ),
)
def nips_authors(setting: Setting) -> list[Row]:
    """Authors grouped by their use of words, and the topics of each group."""
    texts = corpus(setting.fast)
    names = sorted({name for authors in texts.authors for name in authors})
    number = {name: i for i, name in enumerate(names)}
    pairs = [(number[a], c) for c, authors in enumerate(texts.authors) for a in authors]
    who, what = np.array(pairs, dtype=np.int32).T
    wrote = sparse.csr_array((np.ones(len(who)), (who, what)), (len(names), len(texts.titles)))
    papers = np.asarray(wrote.sum(axis=1)).ravel()
    frequent = np.flatnonzero(papers >= setting.choose(fast=2, full=4))
    X = normalized(wrote[frequent] @ texts.counts)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # for k-means
    known = texts.labels >= 0
    section = sparse.csr_array(
        (np.ones(known.sum()), (np.flatnonzero(known), texts.labels[known])),
        (len(texts.titles), int(texts.labels.max()) + 1),
    )
    main = (wrote[frequent] @ section).toarray()
    judged = main.sum(axis=1) > 0
    setting("MCVQ with classes")
    model = fitted(MCVQ(8, 8, n_classes=8, sparse_absent="zero", max_iter=30, random_state=0), X)
    groups = model.predict(X)
    setting("k-means")
    plain = KMeans(8, n_init=5, random_state=0).fit_predict(normalize(np.sqrt(X)))
    rows: list[Row] = []
    for name, found in (("MCVQ 8x8, 8 classes", groups), ("k-means 8", plain)):
        score = adjusted_mutual_info_score(main.argmax(axis=1)[judged], found[judged])
        rows.append({"groups": name, "authors": len(found), "agreement with sections": score})
    overall = np.asarray(X.mean(axis=0)).ravel()
    for g in np.unique(groups):
        own = np.flatnonzero(groups == g)
        mean = np.asarray(X[own].mean(axis=0)).ravel()
        telling = np.argsort(-(mean - overall) / np.sqrt(overall + 1e-9))[:N_WORDS]
        prolific = own[np.argsort(-papers[frequent][own], kind="stable")][:5]
        rows.append(
            {
                "groups": f"group {g}",
                "authors": len(own),
                "words": " ".join(str(texts.words[d]) for d in telling),
                "of most papers": ", ".join(names[frequent[i]] for i in prolific),
            }
        )
    return rows
