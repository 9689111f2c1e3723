"""Workers of a sweep are killed: with a journal, with PostgreSQL, on a cluster of Ray. All trials come to their end."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.many.processes import PATIENCE, ROOT, children, finished, gone, kill, started

pytestmark = [
    pytest.mark.many,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
]
TRIALS = 4
COMMAND = ["-m", "leanrnn", "sweep", str(ROOT / "tests" / "many" / "own_sweep.py") + ":objective", "--out", "sweep"]
COMMAND += ["--search", "rate=0.1..10:log", "--budgets", "mult_adds=50%", "mult_adds=25%", "--trials", str(TRIALS)]


def traces(folder: Path) -> dict[str, list[list[str]]]:
    """Of every trial its epochs: number, process and rate."""
    files = sorted((folder / "sweep" / "trials").glob("*/epochs"))
    return {file.parent.name: [line.split() for line in file.read_text().splitlines()] for file in files}


def check(folder: Path) -> None:
    """All trials are done, each with the settings that it began with, and no epoch was done twice."""
    front = json.loads((folder / "sweep" / "front.json").read_text())
    assert [each["budget"] for each in front] == ["mult_adds=50%", "mult_adds=25%"]
    for each in front:
        assert each.get("RUNNING", 0) == 0 and sum(each.get(s, 0) for s in ("COMPLETE", "PRUNED")) == TRIALS
    found = traces(folder)
    assert len(found) == 2 * TRIALS
    for lines in found.values():
        assert [int(number) for number, _, _ in lines] == list(range(1, len(lines) + 1))
        assert len({rate for _, _, rate in lines}) == 1


def both_wait(folder: Path, *running: subprocess.Popen[bytes]) -> list[int]:
    """Wait until two processes have a trial each that waits in its third epoch; their numbers."""
    for _ in range(PATIENCE * 10):
        found = [int(lines[0][1]) for lines in traces(folder).values() if len(lines) == 2]
        if len(found) == 2:
            return found
        assert all(each.poll() is None for each in running), (folder / "log").read_text()
        time.sleep(0.1)
    raise AssertionError((folder / "log").read_text())


def check_taken_up(folder: Path, dead: int) -> None:
    """The trial of the dead process went on in another, where it was left."""
    check(folder)
    (of_both,) = [lines for lines in traces(folder).values() if len({process for _, process, _ in lines}) == 2]
    assert [int(process) == dead for _, process, _ in of_both][:3] == [True, True, False]


def two_workers_and_a_kill(folder: Path, *more: str) -> None:
    """Two terminals; one of them is killed in the middle of a trial, the other does that trial too."""
    with started([*COMMAND, *more], folder) as first, started([*COMMAND, *more], folder) as second:
        assert {*both_wait(folder, first, second)} == {first.pid, second.pid}
        kill(second.pid)
        second.wait()
        (folder / "sweep" / "go").touch()
        finished(first, folder)
    check_taken_up(folder, second.pid)


def test_two_processes_with_a_journal(tmp_path):
    two_workers_and_a_kill(tmp_path)


def test_workers_that_were_started_along_and_a_resume(tmp_path):
    with started([*COMMAND, "--workers", "2"], tmp_path) as run:
        both_wait(tmp_path, run)
        for process in (*children(run.pid), run.pid):
            kill(process)
        run.wait()
    (tmp_path / "sweep" / "go").touch()
    with started([*COMMAND, "--workers", "2"], tmp_path) as run:
        finished(run, tmp_path)
    check(tmp_path)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[str]:
    """A server of its own, for this test alone; PostgreSQL does not run as root."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not homes:
        pytest.skip("there is no PostgreSQL here: apt-get install postgresql")
    pytest.importorskip("psycopg")
    place = Path("/tmp") / f"leanrnn-postgres-{os.getpid()}"
    place.mkdir()
    as_user = []
    if os.geteuid() == 0:
        shutil.chown(place, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]

    def control(program: str, *words: str) -> None:
        subprocess.run([*as_user, str(homes[-1] / program), *words], check=True, capture_output=True, cwd=place)

    control("initdb", "-D", str(place / "data"), "-A", "trust", "-U", "sweeps")
    options = f"-k {place} -c listen_addresses='' -c fsync=off"
    control("pg_ctl", "-D", str(place / "data"), "-l", str(place / "log"), "-w", "-o", options, "start")
    try:
        yield f"postgresql://sweeps@/postgres?host={place}"
    finally:
        control("pg_ctl", "-D", str(place / "data"), "-m", "immediate", "stop")
        shutil.rmtree(place)


def test_two_processes_with_postgresql(tmp_path, postgres):
    two_workers_and_a_kill(tmp_path, "--storage", postgres)


def test_ray_with_two_nodes_of_which_one_is_killed(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        cluster.wait_for_nodes()
        words = ["--engine", "ray", "--workers", "2", "--address", cluster.address]
        with started([*COMMAND, *words], tmp_path) as run:
            workers = both_wait(tmp_path, run)
            cluster.remove_node(nodes[1], allow_graceful=False)
            dead = next(worker for worker in workers if gone(worker))
            (tmp_path / "sweep" / "go").touch()
            finished(run, tmp_path)
        check_taken_up(tmp_path, dead)
    finally:
        ray.shutdown()
        cluster.shutdown()
