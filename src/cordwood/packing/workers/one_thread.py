"""Limits the libraries that a transform calls to one thread, in every process.

Libraries that start threads of their own would fight with the workers for the cores. And a sum that is taken by two
threads has other bits than one taken by one: what is stored would depend on the number of workers.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, torch and OpenCV use the thread that calls them; afterwards what they used before."""
    before = torch.get_num_threads()
    cv2 = sys.modules.get("cv2")
    cv2_before = cv2.getNumThreads() if cv2 is not None else 0
    torch.set_num_threads(1)
    if cv2 is not None:
        cv2.setNumThreads(0)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        if cv2 is not None:
            cv2.setNumThreads(cv2_before)
