"""Explorers for the documentation, and pictures of them: ``python docs/make_images.py``.

The build of the documentation writes the pages (``EXPLORER_PAGES``) and embeds them. As a script
this opens them in Chromium and takes the pictures in ``images/``. The table comes with
scikit-learn, the faces, stories and ratings are synthetic.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from partwise import MCVQ, Recommender, make_faces
from partwise.report import write_report

IMAGES = Path(__file__).parent / "images"
FILMS = [
    "The Red Balloon",
    "Night Train",
    "Two Sisters",
    "Iron Valley",
    "The Last Dance",
    "Comet",
    "Blue Harbor",
    "The Clockmaker",
    "Paper Moons",
    "Rain City",
    "The Quiet Hill",
    "Midnight Sun",
    "Silver Fox",
    "The Long Road",
    "Winter Song",
    "Golden Hour",
    "The Garden",
    "Star Runner",
    "Old Friends",
    "Deep Water",
]
WORDS = [
    "ship",
    "wave",
    "harbor",
    "sailor",
    "storm",
    "anchor",
    "tide",
    "captain",
    "island",
    "whale",
    "judge",
    "law",
    "jury",
    "appeal",
    "lawyer",
    "verdict",
    "trial",
    "crime",
    "witness",
    "sentence",
    "suddenly",
    "quietly",
    "perhaps",
    "therefore",
    "however",
    "moreover",
]


def image_page(path):
    """Synthetic faces with their five conditions."""
    faces = make_faces(1000, random_state=0)
    labels = np.array(faces.target_names)[faces.target]
    model = MCVQ(5, 12, random_state=0).fit(faces.data[:800], labels[:800])
    write_report(model, path, faces.data[800:], faces.image_shape, title="Synthetic faces")


def table_page(path):
    """Measurements of breast tumors (scikit-learn) with 10 % of the cells removed."""
    tumors = load_breast_cancer(as_frame=True)
    frame = tumors.data.assign(diagnosis=tumors.target_names[tumors.target])
    hidden = np.random.default_rng(0).random(frame.shape) < 0.1
    frame = frame.mask(hidden).set_axis([f"tumor {i}" for i in range(len(frame))])
    model = MCVQ(4, 5, likelihood="auto", random_state=0).fit(frame)
    write_report(model, path, frame, title="Breast tumors")


def text_page(path):
    """Stories about the sea or a court, in one style or another."""
    rng = np.random.default_rng(0)
    topic, style = rng.integers(2, size=(2, 200))
    rates = np.full((200, len(WORDS)), 0.2)
    rates[:, :20] = np.where(np.arange(20) // 10 == topic[:, None], 2.5, 0.2)
    rates[style == 1, 20:] = 1.8
    counts = rng.poisson(rates * rng.uniform(0.6, 1.4, len(WORDS)))
    names = [f"{'A court' if t else 'A sea'} story, no. {i}" for i, t in enumerate(topic)]
    model = MCVQ(2, 3, likelihood="poisson", random_state=0).fit(counts)
    write_report(model, path, counts, row_names=names, column_names=WORDS, title="Stories")


def ratings_page(path):
    """Invented films and invented people."""
    rng = np.random.default_rng(2)
    n, liked = len(FILMS), 1.2 * rng.normal(size=(len(FILMS), 3))
    kinds = rng.integers(3, size=(400, 2))[:, np.arange(n) % 2]
    ratings = np.rint(3.1 + liked[np.arange(n), kinds] + 0.6 * rng.normal(size=kinds.shape))
    user, item = np.nonzero(rng.random(kinds.shape) < np.linspace(0.8, 0.3, n))
    data = (user, [FILMS[i] for i in item], np.clip(ratings, 1, 5)[user, item])
    model = Recommender(MCVQ(2, 4, likelihood="categorical", random_state=0)).fit(data)
    write_report(model, path, title="Films")


ANSWER = """() => {
  const { panels } = partwise;
  for (const rating of [5, 1, 4]) panels.rate(panels.asked, rating);
}"""
HIDE = """() => {
  const { inspector } = partwise.panels;
  inspector.pick(4);
  inspector.hide((row) => row >= 16, "The bottom half is hidden.");
  inspector.element.scrollIntoView();
}"""
TIES = """() => document.getElementById("ties").scrollIntoView()"""
ROW = """() => {
  partwise.panels.choose(5);
  document.getElementById("explore").scrollIntoView();
}"""
SCROLL = """() => {
  partwise.panels.sketch.only(3);
  document.querySelector(".studio").scrollIntoView();
}"""

EXPLORER_PAGES = {
    "explorer-images": image_page,
    "explorer-table": table_page,
    "explorer-text": text_page,
    "explorer-ratings": ratings_page,
}

# Name, page, color scheme, width and height, and an action before the picture is taken.
SHOTS = [
    ("explorer-images", image_page, "light", (1100, 1120), None),
    ("explorer-completion", image_page, "dark", (1100, 740), HIDE),
    ("explorer-phone", image_page, "light", (390, 720), SCROLL),
    ("explorer-table", table_page, "light", (1100, 1360), TIES),
    ("explorer-rows", table_page, "light", (1100, 1240), ROW),
    ("explorer-text", text_page, "light", (1100, 760), None),
    ("explorer-ratings", ratings_page, "light", (1100, 860), ANSWER),
]


def main():
    """Write the pages, open them and take the pictures."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for name, make, scheme, (width, height), act in SHOTS:
            path = Path(folder) / f"{make.__name__}.html"
            if not path.exists():
                make(path)
            size = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")
            page.goto(path.as_uri())
            if act:
                page.evaluate(act)
            target = IMAGES / f"{name}.png"
            page.screenshot(path=target)
            # Few colors are needed, and the file is a third of the size.
            Image.open(target).convert("RGB").quantize(250).save(target, optimize=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
