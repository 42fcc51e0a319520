"""Reinforcement learning: play episodes with the present policy, then learn from what came of them."""

import argparse

import torch
from torch import nn

DISCOUNT, POLES = 0.95, 1024


def moved(states: torch.Tensor, pushes: torch.Tensor) -> torch.Tensor:
    """Many poles at once: angle and speed after a short while."""
    angle, speed = states.unbind(1)
    speed = speed + 0.1 * torch.sin(angle) + 0.2 * (pushes.float() - 0.5)
    return torch.stack([angle + 0.1 * speed, speed], 1)


def play(policy: nn.Module, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    seen, done, rewards = [], [], []
    states = 0.1 * torch.randn(POLES, 2)
    with torch.no_grad():
        for _ in range(length):
            pushes = torch.distributions.Categorical(logits=policy(states)).sample()
            seen.append(states)
            done.append(pushes)
            states = moved(states, pushes)
            rewards.append((states[:, 0].abs() < 0.5).float())
    returns = [torch.zeros(POLES)]
    for reward in reversed(rewards):
        returns.insert(0, reward + DISCOUNT * returns[0])
    return torch.cat(seen), torch.cat(done), torch.cat(returns[:-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=45)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    policy = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for step in range(args.steps):
        states, pushes, returns = play(policy, 8)
        chances = torch.distributions.Categorical(logits=policy(states)).log_prob(pushes)
        loss = -(chances * (returns - returns.mean()) / returns.std()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: return {returns[:POLES].mean().item():.3f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
