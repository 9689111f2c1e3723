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

from tests.many.own_sweep import EPOCHS
from tests.many.processes import ROOT, children, finished, kill, started, when

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


def two_workers_and_a_kill(folder: Path, *more: str) -> None:
    """Two terminals; one of them is killed in the middle of a trial, the other does that trial too."""
    with started([*COMMAND, *more], folder) as first:
        when(folder, "begins", first)
        with started([*COMMAND, *more], folder) as second:
            while not any(int(lines[0][1]) == second.pid for lines in traces(folder).values() if lines):
                assert second.poll() is None
                time.sleep(0.1)
            dead = second.pid
            kill(dead)
        finished(first, folder)
    check(folder)
    of_both = [lines for lines in traces(folder).values() if len({process for _, process, _ in lines}) == 2]
    assert len(of_both) == 1 and int(of_both[0][0][1]) == dead and len(of_both[0]) <= EPOCHS


def test_two_processes_with_a_journal(tmp_path):
    two_workers_and_a_kill(tmp_path)


def test_workers_that_were_started_along_and_a_resume(tmp_path):
    with started([*COMMAND, "--workers", "2"], tmp_path) as run:
        when(tmp_path, "trial 1", run)
        for child in children(run.pid):
            kill(child)
        kill(run.pid)
        run.wait()
    assert len(traces(tmp_path)) < 2 * TRIALS
    with started([*COMMAND, "--workers", "2"], tmp_path) as run:
        finished(run, tmp_path)
    check(tmp_path)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[str]:
    """A server of its own, for this test alone; PostgreSQL does not run as root."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not homes:
        pytest.skip("there is no PostgreSQL here: apt-get install postgresql")
    pytest.importorskip("psycopg2")
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
            while len({line[1] for lines in traces(tmp_path).values() for line in lines}) < 2:
                assert run.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.2)
            cluster.remove_node(nodes[1], allow_graceful=False)
            finished(run, tmp_path)
        check(tmp_path)
    finally:
        ray.shutdown()
        cluster.shutdown()
