"""A function that pretends to train, slowly, and goes on where it was left; for sweeps that are killed."""

import math
import os
import time
from typing import Any

EPOCHS = 5


def objective(trial: Any) -> tuple[float, dict[str, float]]:
    trace = trial.folder / "epochs"
    done = trace.read_text().splitlines() if trace.exists() else []
    rate = trial.settings["rate"]
    for epoch in range(len(done) + 1, EPOCHS + 1):
        time.sleep(float(os.environ.get("LEANRNN_TEST_PAUSE", "0.3")))
        with trace.open("a") as file:
            file.write(f"{epoch} {os.getpid()} {rate}\n")
        trial.report(epoch / EPOCHS, 10 + abs(math.log(rate)), 2 - epoch / EPOCHS)
    return 10 + abs(math.log(rate)), {"mult_adds": 1.0}
