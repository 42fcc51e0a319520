"""Lightning's Trainer, with validation."""

import argparse
import logging
import warnings
from typing import Any

import pytorch_lightning as lightning
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU())
        self.head = nn.Linear(1024, 10)
        self.last = torch.zeros(())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.layers(inputs))
        return scores

    def training_step(self, batch: list[torch.Tensor], _number: int) -> torch.Tensor:
        inputs, labels = batch
        loss = F.cross_entropy(self(inputs), labels)
        self.last = loss.detach()
        return loss

    def validation_step(self, batch: list[torch.Tensor], _number: int) -> None:
        inputs, labels = batch
        self.log("accuracy", (self(inputs).argmax(1) == labels).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def make_loader(count: int, shuffle: bool) -> DataLoader[Any]:
    data = TensorDataset(torch.randn(count, 256), torch.randint(10, (count,)))
    return DataLoader(data, batch_size=64, shuffle=shuffle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    torch.manual_seed(args.seed)
    model = Classifier()
    trainer = lightning.Trainer(
        max_epochs=args.epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, make_loader(960, True), make_loader(128, False))
    print(f"accuracy {trainer.callback_metrics['accuracy'].item():.2%}")
    print(f"final loss {model.last.item()!r}")


if __name__ == "__main__":
    main()
