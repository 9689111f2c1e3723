"""Builds the documentation as a site that opens without a network, and checks every link in it.

python -m tools.site             # build/site, with what `make docs` installs
python -m tools.site --gather    # only build/docs, the pages it is made of
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import leanrnn

ROOT = Path(__file__).parents[1]
PAGES, SITE = ROOT / "build" / "docs", ROOT / "build" / "site"
ELSEWHERE = {
    "README.md": "index.md",
    "docs/index.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "CITATION.cff": "CITATION.cff",
    "benchmarks/README.md": "benchmarks.md",
    "src/leanrnn/discovery/README.md": "discovery.md",
}
"""Files that have another place on the site than in the project; all of docs/ has its own name there."""
TOPICS = {
    "Find": "discover Groups Layer register",
    "Shrink to a budget": "Sparsifier Budget Course Saliency fit_latency refit",
    "Shrink with a penalty": "GroupLasso L1 Penalty Strength constant linear_ramp off_from ElementThreshold "
    "GroupThreshold choose_threshold",
    "Cut and keep": "shrink save load about resumable",
    "Learn from a larger model": "distil Teacher SoftTargets StoredTargets record_targets similar_words",
    "Deploy": "export quantize measure",
}
"""Chapters of the reference, and the public names in each."""
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def sources() -> dict[str, str]:
    """Every file of the project that is on the site, and where. ::

    sources()["README.md"]  # index.md
    """
    docs = {f"docs/{p.relative_to(ROOT / 'docs')}": str(p.relative_to(ROOT / "docs")) for p in _files(ROOT / "docs")}
    examples = {str(p.relative_to(ROOT)): f"examples.md#{p.stem}" for p in sorted((ROOT / "examples").glob("*.py"))}
    return {**docs, **examples, **ELSEWHERE}


def rewritten(source: str, text: str) -> str:
    """A page with its links to other files as they are on the site; raises ``LookupError`` at a link to nothing."""
    known = sources()

    def place(match: re.Match[str]) -> str:
        target, _, anchor = match[2].partition("#")
        if "://" in target or not target:
            return match[0]
        file = (ROOT / source).parent.joinpath(target).resolve()
        name = str(file.relative_to(ROOT))
        if name not in known:
            raise LookupError(f"{source} links to {match[2]}, which is not on the site")
        page, _, own = known[name].partition("#")
        page = os.path.relpath(page, Path(known[source]).parent)
        return f"{match[1]}({page}{'#' * bool(anchor or own)}{anchor or own})"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(place, part) for part in parts)


def gather() -> None:
    """All pages in one folder, with the examples and the reference made from the sources."""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for source, page in sources().items():
        path = PAGES / page
        path.parent.mkdir(parents=True, exist_ok=True)
        if page.endswith(".md"):
            path.write_text(rewritten(source, (ROOT / source).read_text()))
        elif "#" not in page:
            shutil.copy(ROOT / source, path)
    (PAGES / "examples.md").write_text(examples())
    (PAGES / "reference.md").write_text(reference())


def examples() -> str:
    """The notebooks and programs in examples/, whole."""
    texts = [(path.stem, path.read_text()) for path in sorted((ROOT / "examples").glob("*.py"))]
    notebooks = "".join(f"\n{notebook(path)}\n" for path in sorted((ROOT / "examples").glob("*.ipynb")))
    return f"# Examples\n{notebooks}" + "".join(
        f"\n## {name} {{ #{name} }}\n```python\n{text}```\n" for name, text in texts
    )


def notebook(path: Path) -> str:
    """The cells of a notebook as a chapter."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(path.read_text())["cells"]]
    parts = (f"```python\n{text}\n```" if kind == "code" else text.replace("# ", "## ", 1) for kind, text in cells)
    return "\n\n".join(parts)


def reference() -> str:
    """Every public name, with its own documentation."""
    page = "# Functions and classes\n"
    for title, names in TOPICS.items():
        found = [getattr(leanrnn, name) for name in names.split()]
        page += f"\n## {title}\n\n" + "\n".join(f"::: {each.__module__}.{each.__name__}\n" for each in found)
    return page + "\n## Errors\n\n::: leanrnn.errors\n    options:\n      show_root_heading: false\n"


def dead(site: Path) -> Iterator[str]:
    """Links of built pages to files or anchors that are not there."""
    found = (path for path in site.rglob("*.html") if path.name != "404.html")  # which is for a server alone
    pages = {path: path.read_text(encoding="utf-8") for path in found}
    anchors = {path: set(re.findall(r'\s(?:id|name)="?([^"\s>]+)', text)) for path, text in pages.items()}
    for page, text in pages.items():
        for link in re.findall(r'\s(?:href|src)="?([^"\s>]+)', text):
            target, _, anchor = unescape(link).partition("#")
            if re.match(r"[a-z]+:", target) or target.startswith("//"):
                continue
            file = (page.parent / unquote(target)).resolve() if target else page
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                yield f"{page.relative_to(site)}: {link}"
            elif anchor and file in anchors and unquote(anchor) not in anchors[file]:
                yield f"{page.relative_to(site)}: {link} (no such part)"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Gather, build, check."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--gather", action="store_true", help="only gather the pages")
    options = parser.parse_args()
    gather()
    if options.gather:
        return
    program = [Path(sys.executable).with_name("zensical"), "build", "--clean"]
    subprocess.run(program, cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    if faults := sorted(set(dead(SITE))):
        sys.exit("dead links:\n" + "\n".join(faults))
    print(f"{SITE.relative_to(ROOT)}/index.html: {len(list(SITE.rglob('*.html')))} pages, no dead link")


if __name__ == "__main__":
    main()
