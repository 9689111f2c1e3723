"""Decisions: reinforcement learning, control, recommendation."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.zoo.entry import Built, Hold, entry


@entry(
    "agilerl",
    "agilerl.modules.EvolvableLSTM",
    "states come in and go out in a dict",
)
def agilerl_lstm() -> Built:
    """Two layers, three outputs."""
    from agilerl.modules import EvolvableLSTM

    model = EvolvableLSTM(input_size=6, hidden_state_size=8, num_outputs=3, num_layers=2)
    states = {f"{model.name}_{part}": torch.zeros(2, 2, 8) for part in "hc"}
    return model.eval(), (torch.randn(2, 6), states)


@entry(
    "ncps",
    "ncps.torch.CfC",
    "closed-form continuous-time cell and an LSTM cell, both written in Python, in a loop",
    states={"rnn_cell.ff1.weight": (0, 1), "lstm.recurrent_map.weight": (0, 4)},
    holds=(
        Hold(
            "ncps/torch/lstm.py",
            "Missing rule",
            "Both cells start from `torch.zeros((batch_size, self.state_size))` (`ncps/torch/cfc.py`): two "
            "widths, one number. They would have to shrink by as many.",
        ),
    ),
)
def ncps_cfc() -> Built:
    """Mixed memory."""
    from ncps.torch import CfC

    return CfC(6, 8, proj_size=3, mixed_memory=True, batch_first=True).eval(), (torch.randn(2, 5, 6),)


@entry(
    "sb3_contrib",
    "sb3_contrib.common.recurrent.policies.RecurrentActorCriticPolicy",
    "one LSTM for the actor and one for the critic, states in and out, set to zero where an episode starts",
)
def sb3_recurrentppo() -> Built:
    """Three actions."""
    import numpy as np
    from gymnasium import spaces
    from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
    from sb3_contrib.common.recurrent.type_aliases import RNNStates

    def state() -> tuple[Tensor, Tensor]:
        return torch.zeros(1, 2, 8), torch.zeros(1, 2, 8)

    sizes = {"net_arch": [8], "lstm_hidden_size": 8, "n_lstm_layers": 1}
    seen, actions = spaces.Box(-1, 1, (6,), np.float32), spaces.Discrete(3)
    model = RecurrentActorCriticPolicy(seen, actions, lambda _: 1e-3, **sizes)
    return model.eval(), (torch.randn(2, 6), RNNStates(state(), state()), torch.tensor([0.0, 1.0]), True)


class Catalogue:
    """What the recommender asks a dataset for."""

    def num(self, field: str) -> int:
        """Number of items."""
        return 12


@entry(
    "recbole",
    "recbole.model.sequential_recommender.NARM",
    "last state of a GRU and additive attention over all of them, concatenated",
)
def recbole_narm() -> Built:
    """Twelve items."""
    from recbole.model.sequential_recommender.narm import NARM

    names = {"USER_ID_FIELD": "u", "ITEM_ID_FIELD": "i", "LIST_SUFFIX": "_l", "ITEM_LIST_LENGTH_FIELD": "n"}
    sizes = {"MAX_ITEM_LIST_LENGTH": 5, "embedding_size": 6, "hidden_size": 8, "n_layers": 1}
    other = {"NEG_PREFIX": "neg_", "device": "cpu", "loss_type": "CE", "dropout_probs": [0.1, 0.1]}
    model = NARM({**names, **sizes, **other}, Catalogue())
    return model.eval(), (torch.randint(1, 12, (2, 5)), torch.tensor([5, 3]))
