"""
Ratings, and questions worth asking
===================================

Learn from drawn ratings of films of two kinds, recommend to somebody new, say why, and see what a
few well chosen questions are worth against random ones.
"""

import matplotlib.pyplot as plt
import numpy as np

from partwise import MCFA, Recommender

# People have two tastes; a film has more or less of what each of them looks for.
rng = np.random.default_rng(0)
films = [f"space {i}" for i in range(30)] + [f"romance {i}" for i in range(30)]
loadings = np.kron(np.eye(2), np.ones((30, 1))) * rng.uniform(0.2, 1.5, size=(60, 1))
liking = rng.normal(size=(600, 2)) @ loadings.T + rng.normal(scale=0.5, size=60)
ratings = np.digitize(liking + 0.6 * rng.normal(size=liking.shape), [-1.5, -0.5, 0.5, 1.5]) + 1
person, film = np.nonzero(rng.random((500, 60)) < 0.3)
print(f"{len(person)} ratings of {len(films)} films by 500 people")

# %%
# Ratings go in as three columns: who, what, how many stars. The stars have an order and no
# distances, so the factors of a person are behind a number of which they are what is seen.
model = Recommender(MCFA(1, 4, likelihood="ordinal", random_state=0))
model.fit((person, np.array(films)[film], ratings[person, film]))

# %%
# Somebody new is a mapping of films to ratings; nothing is learned anew for them. Every
# recommendation has an interval, and what it rests on.
me = {"space 3": 5, "space 7": 5, "romance 1": 2}
for found in model.recommend(me, n=3):
    print(f"{found.item}: {found.rating:.2f}, between {found.lower:g} and {found.upper:g}")
best = model.recommend(me, n=1)[0].item
for why in model.explain(me, best)["because"]:
    print(f"  {why['effect']:+.2f} for {why['item']}, rated {why['rating']:g}")

# %%
# A few films place a person. The same answers as a distribution over the stars, for two films of
# each kind, and the film about which the model would ask next.
wanted = ["space 11", "space 12", "romance 11", "romance 12"]
chances = model.predict_distribution(me, wanted)
figure, axes = plt.subplots(1, 4, figsize=(9, 2.4), sharey=True, layout="constrained")
for ax, name, chance in zip(axes, wanted, chances, strict=True):
    ax.bar(model.levels_, chance)
    ax.set(title=name, xlabel="stars", xticks=model.levels_)
axes[0].set_ylabel("probability")
print("ask about", model.next_question(me))

# %%
# A hundred people who took no part in the fit are asked about six films, and then predicted.


def errors(answers, rule):
    """Absolute error of a person's predicted ratings before the first question and after each."""
    known, found = model.interview({}), []
    order = rng.permutation(films).tolist()
    for _ in range(7):
        found.append(np.abs(model.predict(known.ratings, films) - list(answers.values())).mean())
        asked = known.next_question(among=films) if rule else order.pop()
        known.answer(asked, answers[asked])
    return found


plt.figure(figsize=(6, 4), layout="constrained")
people = [dict(zip(films, row.tolist(), strict=True)) for row in ratings[500:]]
for name, rule in (("random questions", False), ("next_question", True)):
    plt.plot(np.mean([errors(answers, rule) for answers in people], axis=0), "o-", label=name)
plt.xlabel("questions")
plt.ylabel("mean absolute error, stars")
plt.legend()
