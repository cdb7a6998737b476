"""
Words that go together
======================

A text is about something, and it is told in some manner. A mixture would need a kind of text for
every pair of the two; parts of the vocabulary tell them apart. From texts to counts, parts, the
words of each state, and what a new text is made of. The texts are drawn here, word by word.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import adjusted_rand_score

from partwise import MCVQ

topics = {
    "sea": "ship wave harbour sailor storm anchor tide captain island whale",
    "court": "judge law jury appeal lawyer verdict trial crime witness sentence",
    "kitchen": "oven bread butter onion knife supper kettle spoon recipe flour",
}
manners = {
    "hurried": "suddenly quick rushed shouted ran now",
    "thoughtful": "perhaps quietly wondered slowly moreover therefore",
}
rng = np.random.default_rng(0)


def story(topic, manner):
    """Words of a topic and of a manner, and a few of all others."""
    own = rng.choice(topics[topic].split(), size=rng.poisson(16))
    told = rng.choice(manners[manner].split(), size=rng.poisson(9))
    other = rng.choice(" ".join([*topics.values(), *manners.values()]).split(), size=rng.poisson(6))
    return " ".join(rng.permutation([*own, *told, *other]))


topic = rng.choice(list(topics), size=400)
manner = rng.choice(list(manners), size=400)
texts = [story(*both) for both in zip(topic, manner, strict=True)]
print(texts[0][:70], "...")

# %%
# Counts of words, with ``likelihood="poisson"``. A sparse matrix is taken as it is, and what it
# does not store is zero; a DataFrame brings the words along. How many parts and states there are
# is left to the evidence.
reader = CountVectorizer().fit(texts)
words = reader.get_feature_names_out()


def count(texts):
    """How often each text has each word."""
    return pd.DataFrame(reader.transform(texts).toarray(), columns=words)


counts = count(texts)
model = MCVQ("auto", "auto", likelihood="poisson", random_state=0).fit(counts)
print(f"{model.n_parts_} parts with {model.n_states_} states")
states = model.predict_states(counts)
for k in range(model.n_parts_):
    by_topic, by_manner = (adjusted_rand_score(truth, states[:, k]) for truth in (topic, manner))
    print(f"part {k}: agrees with the topic {by_topic:.2f}, with the manner {by_manner:.2f}")

# %%
# The words of each part, and how often a text in each state has them.
figure, axes = plt.subplots(
    model.n_parts_, 1, figsize=(10, 5), height_ratios=model.n_states_, layout="constrained"
)
for k, ax in enumerate(np.atleast_1d(axes)):
    own = np.flatnonzero(model.parts_ == k)
    expected = model.means_[k, : model.n_states_[k]][:, own]
    order = np.lexsort([-expected.max(axis=0), expected.argmax(axis=0)])
    drawn = ax.imshow(expected[:, order], cmap="Blues", vmin=0, aspect="auto")
    ax.set_xticks(range(len(own)), words[own[order]], rotation=90)
    ax.set_yticks(range(model.n_states_[k]))
    ax.set_ylabel(f"states of part {k}")
    figure.colorbar(drawn, ax=ax, label="count", pad=0.01)

# %%
# A text that the model has not seen: the state of each part, how sure it is, and the words that
# decided.
new = "the captain looked at the storm, and perhaps he wondered about the harbour, slowly, slowly"
for part in model.explain(count([new]), n_columns=3):
    because = ", ".join(f"{told['value']:g} {told['column']}" for told in part["columns"])
    print(f"part {part['part']}: state {part['state']} ({part['probability']:.2f}): {because}")

# %%
# Texts that are like it in what they are about, told in the other manner: the same state of one
# part and another state of the other. A single list of clusters could not be asked this.
about = int(np.argmax(model.n_states_))
mine = model.predict_states(count([new]))[0]
same = states[:, about] == mine[about]
other = (states != mine).any(axis=1) & same
found = np.flatnonzero(other)[0]
print(
    f"{other.sum()} of {same.sum()} texts; the first is about the {topic[found]}, {manner[found]}:"
)
print(texts[found][:70], "...")
