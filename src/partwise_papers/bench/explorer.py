"""How large the explorer's page is, and how quickly it answers in a browser."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from partwise import MCVQ
from partwise.datasets import make_faces
from partwise.report import write_report
from partwise_papers.bench import register
from partwise_papers.registry import Row

N_FACES, N_SHOWN, N_CLICKS = 1000, 200, 40

# Time from a click on a state to the frame in which the sketch has changed, in milliseconds.
_CLICK = """async () => {
  const buttons = Array.from(document.querySelectorAll("[role=radio][aria-label^=State]"));
  const button = buttons[Math.floor(Math.random() * buttons.length)];
  const start = performance.now();
  button.click();
  const computed = performance.now() - start;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return [computed, performance.now() - start];
}"""

# The same for a stroke of the brush: states inferred, and the hidden pixels filled.
_STROKE = """() => {
  const { inspector } = partwise.panels;
  const start = performance.now();
  inspector.dab({ row: Math.floor(32 * Math.random()), column: 16 }, 1);
  inspector.infer(null);
  return performance.now() - start;
}"""


@register("explorer")
def explorer(progress: Callable[[str], None]) -> list[Row]:
    """Size of the page for synthetic faces, time to first paint, and from click to picture."""
    faces = make_faces(N_FACES, random_state=0)
    progress(f"learning {N_FACES - N_SHOWN} faces")
    model = MCVQ(5, 12, random_state=0).fit(faces.data[N_SHOWN:], faces.target[N_SHOWN:])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "faces.html"
        write_report(model, path, faces.data[:N_SHOWN], faces.image_shape)
        progress("opening the page")
        return [{"size (MB)": path.stat().st_size / 1e6, **_measure(path)}]


def _measure(path: Path) -> dict[str, Any]:
    """Open the page in Chromium and use it."""
    browser_path = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser_path = None
    if browser_path is None:
        raise RuntimeError(
            "The explorer is measured in Chromium; install the package chromium and, with pip, "
            "playwright."
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path)
        page = browser.new_page()
        page.goto(path.as_uri())
        page.wait_for_timeout(500)  # until paint is reported
        paint = page.evaluate(
            "performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)"
        )
        ready = page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
        clicks = [page.evaluate(_CLICK) for _ in range(N_CLICKS)]
        strokes = [page.evaluate(_STROKE) for _ in range(N_CLICKS)]
        browser.close()
    return {
        "first paint (ms)": min(paint, default=float("nan")),
        "explorer ready (ms)": ready,
        "click computed (ms)": median(computed for computed, _ in clicks),
        "click to picture (ms)": median(shown for _, shown in clicks),
        "stroke completed (ms)": median(strokes),
    }
