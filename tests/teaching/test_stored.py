"""Soft targets in a file: what is read is what was written, and what is no such file says so."""

import pytest
import torch
from safetensors.torch import save_file

import leanrnn
from leanrnn.errors import DataError


def test_read_as_written(tmp_path):
    batches = [torch.randn(3, 2, 50), torch.randn(5, 2, 50)]
    stored = leanrnn.record_targets(tmp_path / "t.safetensors", iter(batches), top=7, temperature=2.0)
    assert len(stored) == 2
    for soft, scores in zip(stored, batches, strict=True):
        wanted = leanrnn.SoftTargets.of(scores, 7, 2.0)
        assert torch.equal(soft.classes.long(), wanted.classes) and soft.temperature == 2.0
        torch.testing.assert_close(soft.logs, wanted.logs, atol=5e-3, rtol=1e-3)  # half of the bits
        mine = torch.randn_like(scores)
        assert leanrnn.distil(mine, soft, temperature=2.0) == pytest.approx(
            leanrnn.distil(mine, wanted, temperature=2.0).item(), rel=1e-2
        )
    assert not list(tmp_path.glob(".*"))


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path):
    def scores():
        yield torch.zeros(2, 9)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leanrnn.record_targets(tmp_path / "t.safetensors", scores(), top=3)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be(tmp_path):
    path = tmp_path / "t.safetensors"
    with pytest.raises(DataError, match="no file"):
        leanrnn.StoredTargets(path)
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match="cannot be read"):
        leanrnn.StoredTargets(path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(DataError, match="no soft targets"):
        leanrnn.StoredTargets(path)
    with pytest.raises(DataError, match="no scores"):
        leanrnn.record_targets(path, [])
    with pytest.raises(DataError, match="top is 5"):
        leanrnn.record_targets(path, [torch.zeros(2, 4)], top=5)
    stored = leanrnn.record_targets(path, [torch.zeros(2, 4)], top=2)
    with pytest.raises(IndexError, match="1 batches"):
        stored[1]
