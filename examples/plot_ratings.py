"""
Recommendations and questions
=============================

Collaborative filtering with predictive distributions. A model of synthetic ratings of films by 500
users recommends films to a new user, explains the recommendation, and selects the questions from
which it learns most about the user.
"""

import matplotlib.pyplot as plt
import numpy as np

from partwise import MCFA, Recommender

# Two tastes: science fiction and period drama. A film has more or less of what each looks for.
science_fiction = ["Alien", "Aliens", "Blade Runner", "Brazil", "Contact", "Dark City", "Dune"]
science_fiction += ["E.T.", "Gattaca", "Metropolis", "Moon", "Solaris", "Stalker", "Star Wars"]
drama = ["Amadeus", "Carrington", "Emma", "Gigi", "Gosford Park", "Howards End", "Jane Eyre"]
drama += ["Mrs. Brown", "Orlando", "Persuasion", "Restoration", "Sabrina", "Tess", "The Piano"]
films = science_fiction + drama
rng = np.random.default_rng(0)
loadings = np.kron(np.eye(2), np.ones((14, 1))) * rng.uniform(0.4, 1.5, size=(28, 1))
liking = rng.normal(size=(600, 2)) @ loadings.T + rng.normal(scale=0.5, size=28)
ratings = np.digitize(liking + 0.6 * rng.normal(size=liking.shape), [-1.5, -0.5, 0.5, 1.5]) + 1
user, film = np.nonzero(rng.random((500, 28)) < 0.4)
print(f"{len(user)} ratings of {len(films)} films by 500 users")

# %%
# ``fit`` takes users, items and ratings. The stars have an order but no distances, so the model is
# a factor analysis of ordered levels.
model = Recommender(MCFA(1, 4, likelihood="ordinal", random_state=0))
model.fit((user, np.array(films)[film], ratings[user, film]))

# %%
# A new user is a mapping from films to ratings; no retraining is needed. Each recommendation has an
# interval, and the ratings that it is based on.
visitor = {"Alien": 5, "Moon": 5, "Emma": 2}
for found in model.recommend(visitor, n=3):
    print(f"{found.item}: {found.rating:.2f}, 80 % interval {found.lower:g} to {found.upper:g}")
best = model.recommend(visitor, n=1)[0].item
for reason in model.explain(visitor, best)["because"]:
    print(f"  {reason['effect']:+.2f} because {reason['item']} is rated {reason['rating']:g}")

# %%
# Predicted distributions of the stars for two films of each kind, and the film to ask about next.
wanted = ["Solaris", "Stalker", "Orlando", "Tess"]
probabilities = model.predict_distribution(visitor, wanted)
figure, axes = plt.subplots(1, 4, figsize=(9, 2.4), sharey=True, layout="constrained")
for ax, name, probability in zip(axes, wanted, probabilities, strict=True):
    ax.bar(model.levels_, probability)
    ax.set(title=name, xlabel="stars", xticks=model.levels_)
axes[0].set_ylabel("probability")
print("ask about", model.next_question(visitor))

# %%
# A hundred users who are not in the training data answer six questions each. Selected questions
# reduce the error faster than random ones.


def errors(answers, selected):
    """Mean absolute error of a user's predicted ratings before and after each question."""
    interview, found = model.interview({}), []
    order = rng.permutation(films).tolist()
    for _ in range(7):
        predicted = model.predict(interview.ratings, films)
        found.append(np.abs(predicted - list(answers.values())).mean())
        asked = interview.next_question(among=films) if selected else order.pop()
        interview.answer(asked, answers[asked])
    return found


plt.figure(figsize=(6, 4), layout="constrained")
users = [dict(zip(films, row.tolist(), strict=True)) for row in ratings[500:]]
for name, selected in (("random questions", False), ("next_question", True)):
    plt.plot(np.mean([errors(answers, selected) for answers in users], axis=0), "o-", label=name)
plt.xlabel("questions")
plt.ylabel("mean absolute error (stars)")
plt.legend()
