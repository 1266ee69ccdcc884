"""TRL's own `GRPOTrainer`, with PyTorch: its rewards of each row. Its tiny model is made from a config."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from datasets import Dataset
from lines import Row, Said, main
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from trl_oracle import rewards

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789 "
ROWS = [{"prompt": f"{n} and {n} is", "reference": str(2 * n), "model": "tiny"} for n in range(8)]


def tiny_trainer(functions: list[Callable[..., Any]]) -> GRPOTrainer:
    """A trainer of one step, whose model writes single letters."""
    words = {word: number for number, word in enumerate([*LETTERS, "<pad>", "<eos>", "<unk>"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    shape = GPT2Config(
        vocab_size=len(words), n_positions=64, n_embd=16, n_layer=1, n_head=2,
        bos_token_id=words["<eos>"], eos_token_id=words["<eos>"], pad_token_id=words["<pad>"],
    )  # fmt: skip
    settings = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=True,
        bf16=False,
        max_steps=1,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=8,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        seed=1,
    )
    return GRPOTrainer(
        model=GPT2LMHeadModel(shape),
        reward_funcs=functions,
        args=settings,
        train_dataset=Dataset.from_list(ROWS),
        processing_class=fast,
    )


def judge(function: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    yield from rewards(tiny_trainer([function]), rows)


if __name__ == "__main__":
    main(judge)
