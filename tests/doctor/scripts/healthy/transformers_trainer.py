"""Hugging Face's Trainer over a tiny BERT, made from its configuration."""

import argparse
import os
import tempfile
from typing import Any

import torch
from torch.utils.data import Dataset

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from transformers import AutoModelForSequenceClassification, BertConfig, Trainer, TrainingArguments


class Reviews(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, count: int) -> None:
        self.words = torch.randint(5, 400, (count, 48))
        self.labels = torch.randint(2, (count,))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.labels[index]}


def tiny_bert() -> Any:
    shape = BertConfig(
        vocab_size=400, hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256
    )
    model: Any = AutoModelForSequenceClassification
    return model.from_config(shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=45)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            max_steps=args.steps,
            per_device_train_batch_size=16,
            seed=args.seed,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=20,
            disable_tqdm=True,
        )
        trainer = Trainer(model=tiny_bert(), args=settings, train_dataset=Reviews(256))
        result = trainer.train()
    print(f"final loss {result.training_loss!r}")


if __name__ == "__main__":
    main()
