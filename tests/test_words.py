"""The text is plain technical English, and uses one term per idea as the glossary says."""

import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Pages whose text is generated from the docstrings and results of the experiments.
GENERATED = {
    path.relative_to(ROOT).as_posix()
    for pattern in ("results*.md", "benchmark_results.md")
    for path in (ROOT / "docs").glob(pattern)
}
# What is searched: pages, docstrings, comments and messages.
SEARCHED = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "paper.md",
    "changes/README.md",
    "docs/*.md",
    "docs/*.rst",
    "docs/*.py",
    "examples/**/*.py",
    "examples/**/*.rst",
    "src/partwise/cli/*.py",
    "src/partwise/compression/*.py",
    "src/partwise/contracts/*.py",
    "src/partwise/datasets/*.py",
    "src/partwise/files/*.py",
    "src/partwise/serve/*.py",
    "src/partwise/fitted.py",
    "src/partwise/fitting/*.py",
    "src/partwise/_*.py",
    "src/partwise/answers/*.py",
    "src/partwise/association/*.py",
    "src/partwise/data/rating_levels.py",
    "src/partwise/estimators/*.py",
    "src/partwise/likelihoods/*.py",
    "src/partwise/metrics.py",
    "src/partwise/models/*.py",
    "src/partwise/typing.py",
    "src/partwise/plot/*.py",
    "src/partwise/report/*.py",
    "src/partwise/report/static/*",
    "src/partwise/report/templates/*",
    "src/partwise/stability.py",
    "src/partwise/data/*.py",
    "src/partwise/engine/*.py",
    "src/partwise/runners/*.py",
    "src/partwise/sampling/*.py",
    "src/partwise_papers/**/*.py",
    "src/partwise/starts/*.py",
)

# Titles of papers, which keep their spelling.
TITLES = ("Non-linear Bayesian Image Modelling",)

# Unidiomatic phrases: a pattern, a text in which it is found, and a plain alternative.
PATTERNS = [
    (r"\bholes?\b", "a table with holes", "missing values"),
    (
        r"\bnats a\b|\b(bits?|rows?|numbers?|times?|values?) a (row|cell|part|column)",
        "nats a row",
        "per row",
    ),
    (r"\btakes? part in nothing\b", "they take part in nothing", "are ignored"),
    (r"\b(weights|sizes) are repetition\b", "weights are repetition", "equivalent to repeating"),
    (r"\bA seed is a result\b", "A seed is a result.", "with a fixed random_state"),
    (r"\bfor what to think of\b", "For what to think of it", "to judge"),
    (r"\bcut (in|into) (pieces|two)\b", "not cut in pieces", "whole levels; split"),
    (r"\bwhat is told\b|\bbe told\b|\bis told by\b", "What is told.", "diagnostics; is reported"),
    (r"\bfor \S+ to say\b", "how is for `streaming` to say", "controlled by"),
    (r"\brash in the\b", "rash in the beginning", "too early"),
    (r"\bby heart\b", "learns ratings by heart", "overfits"),
    (
        r"\bdegrees and no kinds\b|\bno kinds but\b",
        "has degrees and no kinds",
        "continuous variation",
    ),
    (r"\bof no paper\b", "Of no paper", "additional experiments"),
    (
        r"\bwhere a climb\b|\bclimb(s|ed|ing)?\b",
        "the bound that it climbs",
        "maximize; EM iteration",
    ),
    (r"\bup to nothing but\b", "up to nothing but rounding", "identical up to rounding"),
    (r"\bnobody need\b", "of which nobody need be told", "without the warning"),
    (r"\bfor a try\b", "filled for a try", "held out"),
    (
        r"\blets? the evidence\b|\bevidence (choose|decide|want)s?\b",
        "lets the evidence choose",
        "selected by the ELBO",
    ),
    (r"\bby the evidence\b(?! lower)", "sizes by the evidence", "by the ELBO"),
    (r"(?<!partwise )\bodd(er|est|ness)?\b(?! number)", "odd cells", "anomalous"),
    (
        r"\bbeside (its peers|ours|them|theirs|it)\b|\bside by side\b",
        "beside its peers",
        "compared with",
    ),
    (r"\brivals?\b(?!`)", "named rivals", "other libraries; baseline"),
    (r"\bdrawn\b", "drawn faces", "synthetic; sampled"),
    (r"\bdraws?\b(?!\*)", "draw a state", "sample"),
    (
        r"\bmade to forget\b|\bforget(s|ting)? them\b",
        "the fit was made to forget",
        "held-out cells",
    ),
    (r"\b(depends?|depending) on nothing\b", "depend on nothing", "background column"),
    (r"\b(removed|left|drawn) by chance\b", "removed by chance", "at random"),
    (
        r"\bgoes (with|on top)\b|\bgo with\b|\bon top of (it|its|the) core\b",
        "does not go with",
        "is not supported",
    ),
    (
        r"\bhow (sure|surely)\b|\bso sure\b|\btoo sure\b",
        "how sure they are",
        "uncertainty; certain",
    ),
    (r"\btells? (apart|most|more|what|the|of)\b", "tells the rows apart", "separate; report"),
    (r"\b(a|an) \w+ of (its|their|his) own\b", "a prior of its own", "its own prior"),
    (r"\bin the place of\b", "in the place of x", "instead of"),
    (r"\bas they stand\b|\bas it stands\b", "runs as it stands", "unchanged"),
    (r"\bmend(s|ed)?\b", "mend it", "fix"),
    (r"\bbegin(s|ning)? (anew|with these)\b|\banew\b", "learned anew", "again"),
    (r"\blays?\b|\blies in (it|them)\b", "where it lay", "is contained in"),
    (r"\bfill(s|ed|ing)? (the |a |its |each )?(hole|gap|cell)s?\b", "fills each hole", "impute"),
    (r"\bsweeps? (is|are|of|over|a)\b", "a sweep of all rows", "EM iteration"),
    (r"\bverbs?\b", "the verbs are the same", "methods"),
    (r"\bany ?body\b|\bsomebody\b", "for anybody", "any user"),
    (
        r"\bwhat (is|was) (left of|known of|seen of|wrong with)\b",
        "what is left of them",
        "residuals; observed values",
    ),
    (
        r"\w*(colour|ighbour|favour|harbour|haviour|centre|labell|modell(?!ing\. \*ECCV)|lyser)",
        "neighbour",
        "neighbor",
    ),
    (
        r"\b(?!factoris)\w*(al|im|nt|or|tr|gn|ar|an|at)is(e|ed|es|ing|ation)\b(?<!arising)",
        "maximise, quantisation",
        "standardize",
    ),
]


@cache
def searched():
    """Names and texts of all searched files."""
    found = []
    for pattern in SEARCHED:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            if name not in GENERATED and not name.startswith(("docs/_build", "docs/generated")):
                found.append((name, prose(path)))
    return found


def prose(path):
    """The text of a file without code blocks, formulas, inline code, addresses and link targets."""
    text = path.read_text("utf-8")
    if path.name == "glossary.md":  # without the column of words that are not used
        text = re.sub(r"[^|\n]*\|$", "", text, flags=re.MULTILINE)
    if path.suffix == ".md":
        text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)
        text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
        text = re.sub(r"\$[^$\n]+\$", "", text)
    elif path.suffix == ".py":
        text = "\n".join(comments(text))
    elif path.suffix in (".js", ".css"):
        text = "\n".join(script_text(text))
    elif path.suffix == ".j2":
        text = re.sub(r"<(style|pre)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    for title in TITLES:
        text = text.replace(title, "")
    text = re.sub(r"``[^`]*``|`[^`\n]*`", "`code`", text)
    return re.sub(r"\]\([^)]*\)|https?://\S+", "]", text)


def comments(source):
    """Docstrings, comments, and strings of several words such as messages, of Python source."""
    parts = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", None)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in parts and " " in token.string:
            is_formatted = token.string.lower().startswith(("f", "rf"))
            yield re.sub(r"\{[^{}]*\}", " ", token.string) if is_formatted else token.string


def script_text(source):
    """Comments, and strings of several words, of JavaScript and of style sheets."""
    pattern = r"/\*.*?\*/|`(?:[^`\\]|\\.)*`|\"[^\"\n]*\"|'[^'\n]*'"
    for found in re.findall(pattern, source, flags=re.DOTALL):
        # Text of templates without the expressions inside it.
        words = re.sub(r"\$\{[^{}]*\}", " ", found).strip("`")
        if " " in words.strip():
            yield words


def glossary():
    """Terms, and the words that are not used for them."""
    for line in (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 3 and cells[0] != "Term":
            yield cells[0], [word.strip() for word in cells[2].split(",") if word.strip()]


@pytest.mark.parametrize(("pattern", "example", "instead"), PATTERNS)
def test_text_is_plain(pattern, example, instead):
    assert re.search(pattern, example, flags=re.IGNORECASE), f"{pattern} misses its example"
    found = [
        f"{name}: ...{text[max(0, hit.start() - 40) : hit.end() + 30]!r}"
        for name, text in searched()
        for hit in re.finditer(pattern, text, flags=re.IGNORECASE)
    ]
    assert not found, f"say {instead!r}:\n" + "\n".join(found)


def test_glossary_has_one_term_per_idea():
    terms = [term for term, _ in glossary()]
    assert len(terms) > 20
    assert terms == sorted(terms, key=str.lower)
    unused = {word for _, words in glossary() for word in words}
    assert not unused & set(terms)


def test_synonyms_of_the_glossary_are_not_used():
    found = [
        f"{name}: {word!r}, say {term!r}"
        for term, words in glossary()
        for word in words
        for name, text in searched()
        if re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


def test_terms_of_the_glossary_are_used():
    text = "\n".join(text for name, text in searched() if name != "docs/glossary.md").lower()
    assert [term for term, _ in glossary() if term.split(" (")[0].lower() not in text] == []
