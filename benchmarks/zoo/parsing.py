"""Language: tagging and parsing of sentences."""

from __future__ import annotations

import torch

from benchmarks.zoo.entry import Built, Hold, entry


@entry(
    "flair",
    "flair.models.SequenceTagger",
    "two packed bidirectional layers, a linear layer, a conditional random field",
    older=True,
)
def flair_tagger() -> Built:
    """Named entities of one kind."""
    import flair

    flair.device = torch.device("cpu")
    from flair.data import Dictionary
    from flair.embeddings import TokenEmbeddings
    from flair.models import SequenceTagger

    class Given(TokenEmbeddings):
        """Embeddings that the caller hands in."""

        def __init__(self) -> None:
            super().__init__()
            self.name = "given"

        embedding_length = 8

        def _add_embeddings_internal(self, sentences):
            return sentences

    tags = Dictionary(add_unk=False)
    for tag in ("O", "S-PER", "B-PER", "I-PER", "E-PER"):
        tags.add_item(tag)
    options = {"tag_dictionary": tags, "tag_type": "ner", "hidden_size": 6, "rnn_layers": 2, "use_crf": True}
    return SequenceTagger(embeddings=Given(), **options).eval(), (torch.randn(2, 5, 8), torch.tensor([5, 3]))


@entry(
    "supar",
    "supar.models.BiaffineDependencyModel",
    "LSTMs over characters and words, the second of LSTMCells in a loop over packed batches; biaffine attention",
    holds=(
        Hold(
            "supar/modules/lstm.py",
            "Missing rule",
            "The last states of the character LSTM are written with `masked_scatter_` "
            "(`supar/modules/lstm.py:79`). Which rows are written depends on data, but the mask is the same "
            "along the hidden axis.",
        ),
    ),
)
def supar_biaffine() -> Built:
    """Two sentences, the second shorter."""
    from supar.models import BiaffineDependencyModel

    model = BiaffineDependencyModel(
        n_words=20,
        n_rels=4,
        n_chars=12,
        encoder="lstm",
        feat=["char"],
        n_embed=8,
        n_feat_embed=6,
        n_char_embed=4,
        n_char_hidden=6,
        n_lstm_hidden=8,
        n_encoder_hidden=8,
        n_lstm_layers=2,
        n_encoder_layers=2,
        n_arc_mlp=6,
        n_rel_mlp=5,
        char_pad_index=0,
        pad_index=0,
        unk_index=1,
        n_pretrained=0,
    )
    words = torch.randint(2, 20, (2, 5))
    words[1, 4:] = 0
    characters = torch.randint(1, 12, (2, 5, 4)) * words.ne(0).unsqueeze(-1)
    return model.eval(), (words, [characters])
