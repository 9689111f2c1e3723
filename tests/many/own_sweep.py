"""A function that pretends to train and goes on where it was left; for sweeps that are killed. Its third epoch waits
until the file ``go`` is in the folder of the sweep."""

import math
import os
import time
from typing import Any

EPOCHS = 5


def objective(trial: Any) -> tuple[float, dict[str, float]]:
    trace, gate = trial.folder / "epochs", trial.folder.parents[1] / "go"
    done = trace.read_text().splitlines() if trace.exists() else []
    rate = trial.settings["rate"]
    for epoch in range(len(done) + 1, EPOCHS + 1):
        while epoch > 2 and not gate.exists():
            time.sleep(0.1)
        with trace.open("a") as file:
            file.write(f"{epoch} {os.getpid()} {rate}\n")
        trial.report(epoch / EPOCHS, 10 + abs(math.log(rate)), 2 - epoch / EPOCHS)
    return 10 + abs(math.log(rate)), {"mult_adds": 1.0}
