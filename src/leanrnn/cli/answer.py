"""``leanrnn answer``: ask a model about a text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from leanrnn.cli.artefacts import Source
from leanrnn.cli.printing import print_json
from leanrnn.errors import DataError

__all__ = ["Ask"]


@dataclass(frozen=True)
class Ask:
    """Answer a question with a passage of a text, by a model of a squad-bidaf recipe."""

    source: Source
    """A run folder, a file it has written, or an exported one (.onnx)."""
    context: Path
    """A file with the text."""
    question: str
    """What to ask about it."""
    json: bool = False
    """Print as JSON."""

    def run(self) -> None:
        """Read, ask, print."""
        from leanrnn.lab.runs import model_file
        from leanrnn.lab.squad.answer import answer, opened

        try:
            text = self.context.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.context} cannot be read ({error}). Give a file of UTF-8 text.") from error
        found = answer(*opened(model_file(self.source)), text, self.question)
        if self.json:
            print_json(asdict(found))
        else:
            print(f"{found.text}  ({found.probability:.0%})\n{found.sentence}")
