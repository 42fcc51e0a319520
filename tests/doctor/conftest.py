"""Fixtures for tests that watch real training."""

from collections.abc import Iterator

import pytest
import torch

from cordwood.doctor.run.session import Session


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small nets only wait for threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def session(one_thread: None) -> Iterator[Session]:
    """A session that is attached, and lets go at the end."""
    session = Session(seconds=0.0)
    session.attach()
    yield session
    session.detach()
