"""``leanrnn report``: one page about runs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from leanrnn.commands.artefacts import Given, artefacts
from leanrnn.errors import ConfigError

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Write one page about one or several runs: what happened, what is left, how fast it is."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Folders of runs that have ended."""
    out: Path = Path("report.html")
    """The page to write."""
    markdown: Path | None = None
    """Write the words and tables as Markdown too."""
    csv: Path | None = None
    """Write every epoch of every run as comma-separated values too."""
    seconds: float = 10.0
    """To spend on timing; 0 leaves times out."""

    def run(self) -> None:
        """Read, draw, write."""
        from leanrnn.report.page import html
        from leanrnn.report.story import read_story
        from leanrnn.report.words import comma_separated, markdown

        if not self.runs:
            raise ConfigError("no run was named. Give the folder of one, such as runs/text.")
        stories = [read_story(folder) for folder in self.runs]
        rows = self._times() if self.seconds > 0 else []
        written = {self.out: html(stories, rows)}
        if self.markdown is not None:
            written[self.markdown] = markdown(stories, rows)
        if self.csv is not None:
            written[self.csv] = comma_separated(stories)
        for path, text in written.items():
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")

    def _times(self) -> list[dict[str, Any]]:
        import torch

        from leanrnn.commands.measure import measured
        from leanrnn.environment import hold_memory

        hold_memory()
        with tempfile.TemporaryDirectory() as folder:
            found = [artefacts(Given(run), Path(folder) / str(i)) for i, run in enumerate(self.runs)]
            rows = list(measured(found, (torch.get_num_threads(),), self.seconds))
        names = {str(run): run.name for run in self.runs}
        return [row | {"model": names[row["model"]]} for row in rows]
