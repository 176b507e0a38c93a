"""A real sentence-transformers model with random weights, saved to a directory: nothing is fetched.
Needs the extra.
"""

from pathlib import Path

import tokenizers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, StaticEmbedding, Transformer

from tests.embedding.tiny_onnx import WORDS

DIMENSION = 16


def write_encoder(home: Path) -> None:
    """Two layers of attention and the mean over tokens, as most published models are."""
    tokenizer = words()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=64
    )
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=DIMENSION,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    encoder = home / "encoder"
    transformers.BertModel(config).save_pretrained(encoder)
    fast.save_pretrained(encoder)
    layer = Transformer(str(encoder))
    SentenceTransformer(modules=[layer, Pooling(DIMENSION)], device="cpu").save(str(home))


def write_table(home: Path) -> None:
    """A table of word vectors: such a model knows no longest text."""
    torch.manual_seed(3)
    table = StaticEmbedding(words(), embedding_dim=DIMENSION)
    SentenceTransformer(modules=[table], device="cpu").save(str(home))


def words() -> tokenizers.Tokenizer:
    """Knows a few words and splits at blanks."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return tokenizer
