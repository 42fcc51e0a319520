"""What was seen in a run: steps, stacks, fetches, the tape of operations; and the findings made of it."""
