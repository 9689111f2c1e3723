"""``leanrnn report``: one page about runs."""

from __future__ import annotations

import shlex
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from leanrnn.cli.artefacts import Given
from leanrnn.cli.parsing import Numbers, Words
from leanrnn.cli.printing import Tell, print_json, reading
from leanrnn.environment import check_target, check_threads
from leanrnn.errors import ConfigError

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Write one page about one or several runs: what happened, what is left, how fast it is."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Folders of runs. A run that is not finished is shown as of its last checkpoint. The folder of a sweep stands for
    its front: the best run of every budget."""
    out: Path = Path("report.html")
    """The page to write."""
    markdown: bool = False
    """Write the words and tables as Markdown too, beside the page (report.md)."""
    csv: bool = False
    """Write every epoch of every run as comma-separated values too, beside the page (report.csv)."""
    seconds: float = 10.0
    """Total time to spend on timing; 0 leaves times out."""
    threads: Numbers = ()
    """Numbers of threads to time with; one and all if not given."""
    runtimes: Words = ()
    """Any of torch, onnxruntime, int8 and openvino; all that are installed if not given."""
    json: bool = False
    """Print what was found as JSON."""

    def run(self) -> None:
        """Read, time, draw; write when all of it is there."""
        from leanrnn.environment import environment
        from leanrnn.lab.disk import write_whole
        from leanrnn.lab.report.drawing import check_matplotlib
        from leanrnn.lab.report.page import html
        from leanrnn.lab.report.story import read_stories
        from leanrnn.lab.report.tables import comma_separated, facts
        from leanrnn.lab.report.words import markdown

        self._check()
        check_matplotlib()
        if self.of != self.runs:
            return replace(self, runs=self.of).run()
        with reading(self.json) as tell:
            stories = read_stories(self.runs, tell)
            rows, failed = self._times([story.name for story in stories], tell) if self.seconds > 0 else ([], [])
            measured = environment() if rows else None
            tell("drawing the page", 0, 1)
            written = {self.out: html(stories, rows, measured, self._command())}
            tell("drawing the page", 1, 1)
        if self.markdown:
            written[self.out.with_suffix(".md")] = markdown(stories, rows, measured)
        if self.csv:
            written[self.out.with_suffix(".csv")] = comma_separated(stories)
        for path, text in written.items():
            write_whole(path, text)
        if self.json:
            told = {"written": [*map(str, written)], "runs": [*map(facts, stories)]}
            print_json(told | {"measured": rows, "not_run": failed})
            return
        for each in failed:
            print(f"{each['model']} was not measured in {each['runtime']}: {each['reason']}")
        print("\n".join(f"wrote {path}" for path in written))

    @property
    def of(self) -> tuple[Path, ...]:
        """The runs, those of the front in the place of a sweep."""
        from leanrnn.lab.sweep.work import runs_of

        return tuple(each for run in self.runs for each in (runs_of(run) if (run / "front.json").exists() else [run]))

    def _check(self) -> None:
        """Mistakes are told before minutes are spent."""
        if not self.runs:
            raise ConfigError("no run was named. Give the folder of one, such as runs/text.")
        check_target(self.out, ConfigError)
        if self.out.suffix in (".md", ".csv"):
            raise ConfigError(f"{self.out} is to be a page. Name it .html; --markdown and --csv write beside it.")
        if self.seconds < 0:
            raise ConfigError(f"seconds is {self.seconds:g}. Give at least 0.")
        for count in self.threads:
            check_threads(count)

    def _times(self, names: list[str], tell: Tell) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
        """What was measured, and what was not."""
        import torch

        from leanrnn.cli.measure import exported, left_out, measured
        from leanrnn.environment import hold_memory

        hold_memory()
        threads = self.threads or tuple(dict.fromkeys((1, torch.get_num_threads())))
        with tempfile.TemporaryDirectory() as folder:
            found = exported([Given(run) for run in self.runs], Path(folder), self.runtimes, tell)
            rows = measured(found, threads, self.seconds, tell)
        known = dict(zip(map(str, self.runs), names, strict=True))
        failed = [each | {"model": known[each["model"]]} for each in left_out(found)]
        return [row | {"model": known[row["model"]]} for row in rows], failed

    def _command(self) -> str:
        """What to type to have this page again."""
        words = ["leanrnn", "report", *map(str, self.runs), "--out", str(self.out)]
        words += [f"--{name}" for name in ("markdown", "csv") if getattr(self, name)]
        words += ["--seconds", f"{self.seconds:g}"]
        words += ["--threads", *map(str, self.threads)] if self.threads else []
        words += ["--runtimes", *self.runtimes] if self.runtimes else []
        return shlex.join(words)
