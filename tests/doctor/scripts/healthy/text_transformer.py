"""A small causal language model: tied embeddings, masked attention, gradient clipping, warm-up."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

WORDS, WIDTH, LENGTH = 500, 64, 48


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.position = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        states = self.embed(words) + self.position[: words.shape[1]]
        scores: torch.Tensor = self.head(self.layers(states, mask=mask, is_causal=True))
        return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=45)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=10)
    texts = torch.randint(WORDS, (64, LENGTH + 1))
    running = 0.0
    for step in range(args.steps):
        batch = texts[torch.randint(len(texts), (12,))]
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warm_up.step()
        running = 0.9 * running + 0.1 * loss.item()
        if step % 10 == 0:
            print(f"step {step}: running loss {running:.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
