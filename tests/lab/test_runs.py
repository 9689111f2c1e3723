"""Run folders: a checkpoint is whole or not there, damage falls back, and every mishap is told in a sentence."""

import errno
import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

import leanrnn
from leanrnn.errors import RunError
from leanrnn.lab.disk import to_disk
from leanrnn.lab.runs import Run

SETTINGS = {"config": {"widths": [3, 2], "seed": 1}}


def save(run: Run, step: int) -> None:
    run.log({"step": step})
    run.save(step, nn.Linear(2, 2), {"x": torch.full((3,), float(step))}, {"step": step})


def test_the_last_two_checkpoints_stay(tmp_path):
    with Run.open(tmp_path, SETTINGS) as run:
        assert run.latest() is None
        for step in (5, 10, 15):
            save(run, step)
        run.log({"step": 16})
        assert sorted(p.name for p in run.checkpoints.iterdir()) == ["00000010", "00000015"]
        found = run.latest()
    assert found is not None and found.data == {"step": 15} and found.tensors["x"].tolist() == [15.0] * 3
    assert isinstance(leanrnn.load(found.model, lambda: nn.Linear(2, 2)), nn.Linear)
    # what came after the checkpoint will happen again
    assert [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [5, 10, 15]
    assert json.loads((tmp_path / "config.json").read_text()) == SETTINGS


@pytest.mark.parametrize("file", ["model.safetensors", "tensors.safetensors", "rest.json"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_a_damaged_checkpoint_is_not_used(tmp_path, file, damage):
    with Run.open(tmp_path, SETTINGS) as run:
        save(run, 1)
        save(run, 2)
        path = run.checkpoints / "00000002" / file
        content = path.read_bytes()
        if damage == "remove":
            path.unlink()
        else:
            middle = len(content) // 2
            flipped = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
            path.write_bytes(content[:-1] if damage == "truncate" else flipped)
        if file == "rest.json" and damage == "flip":
            path.write_bytes(b"{")
        found = run.latest()
        assert found is not None and found.data == {"step": 1}
        assert "checkpoint 00000002 is damaged" in run.notes[0]
        save(run, 2)  # again, in the same place
        assert run.latest().data == {"step": 2}


def test_half_written_checkpoints_are_cleared_away(tmp_path, monkeypatch):
    with Run.open(tmp_path, SETTINGS) as run:
        save(run, 1)
        (run.checkpoints / ".writing-left").mkdir()

        def full(*args, **kwargs):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr("leanrnn.lab.runs.write_tensors", full)
            with pytest.raises(OSError, match="No space"):
                save(run, 2)
    with Run.open(tmp_path, SETTINGS) as run:
        assert sorted(p.name for p in run.checkpoints.iterdir()) == ["00000001"] and run.latest().data == {"step": 1}


def test_other_settings_are_refused(tmp_path):
    with Run.open(tmp_path, SETTINGS):
        pass
    with pytest.raises(RunError, match=r"config.seed was 1 and is 2\. Name another folder"):
        with Run.open(tmp_path, {"config": {"widths": [3, 2], "seed": 2}}):
            pass
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunError, match="cannot be read"):
        with Run.open(tmp_path, SETTINGS):
            pass


def test_one_process_at_a_time(tmp_path):
    code = f"""
from pathlib import Path
from leanrnn.lab.runs import Run
with Run.open(Path({str(tmp_path)!r}), {SETTINGS!r}):
    pass
"""
    with Run.open(tmp_path, SETTINGS):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
        assert f"another process ({os.getpid()}) is training in" in done.stderr
    subprocess.run([sys.executable, "-c", code], timeout=300, check=True)


def test_a_full_disk_is_told(tmp_path):
    """The system itself refuses: files of this process may not grow beyond some bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.raises(RunError, match=r"cannot grow: File too large\. The last checkpoint is whole"):
        with Run.open(tmp_path, SETTINGS) as run:
            save(run, 1)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
            try:
                run.save(2, nn.Linear(2, 2), {"x": torch.zeros(5000)}, {"step": 2})
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with Run.open(tmp_path, SETTINGS) as run:
        assert run.latest().data == {"step": 1}


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written to"):
        with Run.open(tmp_path / "file" / "run", SETTINGS):
            pass


def test_folders_that_may_not_be_written():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with as_nobody(), pytest.raises(RunError, match="cannot be written to: Permission denied"):
            with Run.open(Path(folder) / "run", SETTINGS):
                pass


@contextmanager
def as_nobody() -> Iterator[None]:
    """Nothing is forbidden to root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_folder_from_before_a_setting_had_a_name_goes_on(tmp_path):
    with Run.open(tmp_path, {"config": {"seed": 1}}):
        pass
    with Run.open(tmp_path, {"config": {"seed": 1, "cell": "lstm"}}, defaults={"config": {"seed": 5, "cell": "lstm"}}):
        pass
    with (
        pytest.raises(RunError, match="cell was 'lstm' and is 'gru'"),
        Run.open(tmp_path, {"config": {"seed": 1, "cell": "gru"}}, defaults={"config": {"cell": "lstm"}}),
    ):
        pass


def test_disks_that_cannot_do_everything(tmp_path, monkeypatch):
    """As on Windows, and on network folders whose server knows no locks, or no fsync of a folder."""
    opened, synced = os.open, os.fsync

    def without_folders(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return synced(handle)

    def files_alone(path, flags, *rest, **more):
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "a folder cannot be opened")
        return opened(path, flags, *rest, **more)

    def no_locks(*args):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", without_folders)
        to_disk(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("leanrnn.lab.disk.WINDOWS", True)
        patch.setattr(os, "open", files_alone)
        to_disk(tmp_path)
        (tmp_path / "file").write_text("")
        to_disk(tmp_path / "file")
    monkeypatch.setattr("fcntl.flock", no_locks)
    with Run.open(tmp_path / "run", SETTINGS) as run:
        save(run, 1)
        with pytest.raises(RunError, match=rf"another process \({os.getpid()}\) is training in"):
            with Run.open(tmp_path / "run", SETTINGS):
                pass
    with Run.open(tmp_path / "run", SETTINGS) as run:
        assert run.latest().data == {"step": 1}
