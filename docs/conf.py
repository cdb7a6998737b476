"""Sphinx configuration: ``sphinx-build -W --keep-going docs docs/_build/html``.

The built site loads nothing from elsewhere. MathJax comes from the package sphinx-mathjax-offline,
of which only the parts that a page loads are copied (2 MB).
"""

import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import partwise

HERE = Path(__file__).parent
GENERATED = HERE / "generated"
EXPLORERS = GENERATED / "explorers"
EXPLORERS.mkdir(parents=True, exist_ok=True)  # before html_extra_path is checked
sys.path.insert(0, str(HERE))  # for make_images.py

project = "Partwise"
author = "The Partwise developers"
copyright = author
version = release = partwise.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "generated/backreferences/**"]
templates_path = ["_templates"]

mathjax_path = "mathjax/tex-chtml.js"  # copied by copy_mathjax
mathjax3_config = {"options": {"enableMenu": False}}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings have types, with shapes
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "capture_repr": ("_repr_html_",),
    "download_all_examples": False,
    "show_signature": False,
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("partwise",),
}

html_theme = "pydata_sphinx_theme"
html_title = "Partwise"
html_static_path = ["_static"]
html_extra_path = ["generated/explorers"]
html_css_files = ["partwise.css"]
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {name: [] for name in ("start", "results", "migrate", "faq", "glossary")}

# Pages in Markdown read well where the code is hosted: they link to files, and the pages below
# list others in plain bullets. Here these links lead to pages, and the bullets are the table of
# contents.
CONTENTS = ("index", "models", "guides", "benchmarks")
OUTSIDE = {
    r"\.\./examples/README\.rst": "auto_examples/index.rst",
    r"\.\./examples/((?:\w+/)?plot_\w+)\.py": r"auto_examples/\1.rst",
    r"\.\./CONTRIBUTING\.md": "generated/contributing.md",
    r"\.\./CHANGELOG\.md": "generated/changes.md",
}


def live(picture: re.Match[str]) -> str:
    """Replace the picture of an explorer by the explorer itself, if there is one."""
    caption, name = picture.groups()
    if not (EXPLORERS / f"{name}.html").exists():
        return picture.group()
    return (
        f'```{{raw}} html\n<iframe class="explorer" src="{name}.html" title="{caption}" '
        f'loading="lazy"></iframe>\n<p><a href="{name}.html">{caption} (open in full)</a></p>\n```'
    )


def lead_to_pages(app: Any, docname: str, source: list[str]) -> None:
    """Point links at pages of the site, and add tables of contents."""
    text = source[0]
    for file, page in OUTSIDE.items():
        text = re.sub(rf"\]\({file}", f"]({page}", text)
    text = re.sub(r"^!\[([^\]]*)\]\(images/(explorer-\w+)\.png\)$", live, text, flags=re.MULTILINE)
    if docname in CONTENTS:
        entries = re.findall(r"^(?:- )?\[([^\]]+)\]\(([\w/]+)\.\w+\)", text, flags=re.MULTILINE)
        listed = "\n".join(f"{title.replace('`', '')} <{page}>" for title, page in entries)
        text += f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    source[0] = text


def write_pages(app: Any) -> None:
    """Write the pages that are kept outside of this folder: changes, and how to contribute."""
    root = HERE.parent
    fragments = [
        path.read_text().strip()
        for path in sorted((root / "changes").glob("*.md"))
        if path.name != "README.md"
    ]
    changes = (root / "CHANGELOG.md").read_text().strip()
    if fragments:
        changes += "\n\n## Not yet released\n\n" + "\n".join(sorted(fragments)) + "\n"
    contributing = (root / "CONTRIBUTING.md").read_text()
    for name, text in {"changes": changes, "contributing": contributing}.items():
        text = re.sub(r"\]\(docs/", "](../", text)
        text = re.sub(r"\[([^\]]+)\]\((?:changes/|CODE_OF_CONDUCT|SECURITY)[^)]*\)", r"\1", text)
        (GENERATED / f"{name}.md").write_text(text)


def write_explorers(app: Any) -> None:
    """Fit the small models whose explorers the pages embed, unless an earlier build did."""
    from make_images import EXPLORER_PAGES

    for name, make in EXPLORER_PAGES.items():
        if not (EXPLORERS / f"{name}.html").exists():
            make(EXPLORERS / f"{name}.html")


def copy_mathjax(app: Any, exception: Exception | None) -> None:
    """Copy the parts of MathJax that the pages load into the site."""
    package = find_spec("sphinx-mathjax-offline")
    if exception or app.builder.format != "html" or package is None or package.origin is None:
        return
    source = Path(package.origin).parent / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "tex-chtml.js", target)
    for part in ("output/chtml/fonts/woff-v2", "input/tex/extensions"):
        shutil.copytree(source / part, target / part, dirs_exist_ok=True)


def skip_foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool:
    """Leave what scikit-learn gives every estimator to its own documentation."""
    return skip or str(getattr(obj, "__module__", "")).startswith("sklearn.")


def setup(app: Any) -> None:
    """Connect the above."""
    app.connect("builder-inited", write_pages)
    app.connect("builder-inited", write_explorers)
    app.connect("build-finished", copy_mathjax)
    app.connect("source-read", lead_to_pages)
    app.connect("autodoc-skip-member", skip_foreign)
