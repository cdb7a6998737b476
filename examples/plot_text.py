"""
Topics and styles of texts
==========================

A text has a topic and a style. A mixture model needs one component per combination of the two;
parts of the vocabulary separate them. From texts to word counts, parts, the words of each state,
and the explanation of a new text. The texts are synthetic.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import adjusted_rand_score

from partwise import MCVQ

topics = {
    "sea": "ship wave harbor sailor storm anchor tide captain island whale",
    "court": "judge law jury appeal lawyer verdict trial crime witness sentence",
    "kitchen": "oven bread butter onion knife supper kettle spoon recipe flour",
}
styles = {
    "hurried": "suddenly quick rushed shouted ran now",
    "thoughtful": "perhaps quietly wondered slowly moreover therefore",
}
rng = np.random.default_rng(0)


def story(topic, style):
    """Words of a topic and a style, and some of all others."""
    own = rng.choice(topics[topic].split(), size=rng.poisson(16))
    manner = rng.choice(styles[style].split(), size=rng.poisson(9))
    other = rng.choice(" ".join([*topics.values(), *styles.values()]).split(), size=rng.poisson(6))
    return " ".join(rng.permutation([*own, *manner, *other]))


topic = rng.choice(list(topics), size=400)
style = rng.choice(list(styles), size=400)
texts = [story(*both) for both in zip(topic, style, strict=True)]
print(texts[0][:70], "...")

# %%
# Word counts with ``likelihood="poisson"``. Sparse matrices are accepted, and absent entries are
# zero; a DataFrame carries the words as column names. The numbers of parts and states are selected
# automatically by the ELBO.
vectorizer = CountVectorizer().fit(texts)
words = vectorizer.get_feature_names_out()


def count(texts):
    """Word counts as a DataFrame."""
    return pd.DataFrame(vectorizer.transform(texts).toarray(), columns=words)


counts = count(texts)
model = MCVQ("auto", "auto", likelihood="poisson", random_state=0).fit(counts)
print(f"{model.n_parts_} parts with {model.n_states_} states")
states = model.predict_states(counts)
for k in range(model.n_parts_):
    by_topic, by_style = (adjusted_rand_score(truth, states[:, k]) for truth in (topic, style))
    print(f"part {k}: adjusted Rand index with topic {by_topic:.2f}, with style {by_style:.2f}")

# %%
# The words of each part, and their expected counts in each state.
figure, axes = plt.subplots(
    model.n_parts_, 1, figsize=(10, 5), height_ratios=model.n_states_, layout="constrained"
)
for k, ax in enumerate(np.atleast_1d(axes)):
    own = np.flatnonzero(model.parts_ == k)
    expected = model.means_[k, : model.n_states_[k]][:, own]
    order = np.lexsort([-expected.max(axis=0), expected.argmax(axis=0)])
    image = ax.imshow(expected[:, order], cmap="Blues", vmin=0, aspect="auto")
    ax.set_xticks(range(len(own)), words[own[order]], rotation=90)
    ax.set_yticks(range(model.n_states_[k]))
    ax.set_ylabel(f"states of part {k}")
    figure.colorbar(image, ax=ax, label="count", pad=0.01)

# %%
# A new text: the state of each part, its probability, and the words that determined it.
new = "the captain looked at the storm, and perhaps he wondered about the harbor, slowly, slowly"
for part in model.explain(count([new]), n_columns=3):
    because = ", ".join(f"{found['value']:g} {found['column']}" for found in part["columns"])
    print(f"part {part['part']}: state {part['state']} ({part['probability']:.2f}): {because}")

# %%
# Texts with the same topic and the other style: the same state of one part and another state of
# the other. A single clustering cannot answer this query.
about = int(np.argmax(model.n_states_))
mine = model.predict_states(count([new]))[0]
same = states[:, about] == mine[about]
other = (states != mine).any(axis=1) & same
found = np.flatnonzero(other)[0]
print(f"{other.sum()} of {same.sum()} texts; the first has topic {topic[found]}, {style[found]}:")
print(texts[found][:70], "...")
