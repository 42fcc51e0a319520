"""Objects as sources: what they give, that they travel, and what they say when they cannot."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch

from cordwood.errors import UsageError
from cordwood.sources import DatasetSource, Input, IterableSource, SamplesInMemory


class Squares:
    def __init__(self, count: int = 5) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> int:
        return number * number


class TestDatasetSource:
    def test_gives_each_number_once_from_anywhere(self) -> None:
        source = DatasetSource(Squares())
        assert source.count == 5
        assert list(source.inputs(3)) == [Input(3), Input(4)]
        assert [source.reader()(each.handle) for each in source.inputs()] == [0, 1, 4, 9, 16]

    def test_the_reader_travels_with_the_dataset(self) -> None:
        reader = cloudpickle.loads(cloudpickle.dumps(DatasetSource(Squares(9)).reader()))
        assert reader(7) == 49

    def test_what_cannot_travel_is_made_anew_by_its_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "held.py").write_text(
            "import threading\n"
            "class Held:\n"
            "    def __init__(self): self.lock = threading.Lock()\n"
            "    def __len__(self): return 3\n"
            "    def __getitem__(self, number): return -number\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        import held  # type: ignore[import-not-found]

        with pytest.raises(TypeError):
            cloudpickle.dumps(DatasetSource(held.Held()).reader())
        reader = cloudpickle.loads(cloudpickle.dumps(DatasetSource(held.Held(), "held:Held").reader()))
        assert reader(2) == -2

    def test_a_named_dataset_that_can_travel_is_sent_as_it_is(self) -> None:
        drawn = [random.random()]
        reader = cloudpickle.loads(cloudpickle.dumps(DatasetSource(drawn, "random:random").reader()))
        assert reader(0) == drawn[0]

    def test_describes_itself_without_the_count_and_fingerprints_it(self) -> None:
        assert DatasetSource(Squares(3)).describe() == DatasetSource(Squares(4)).describe()
        assert DatasetSource(Squares(3)).describe()["object"].endswith("Squares")
        assert DatasetSource(Squares(3)).fingerprint() == DatasetSource(Squares(3)).fingerprint()
        assert DatasetSource(Squares(3)).fingerprint() != DatasetSource(Squares(4)).fingerprint()


class TestSamplesInMemory:
    @pytest.mark.parametrize(
        ("found", "second"),
        [
            ([{"x": 1}, {"x": 2}], {"x": 2}),
            ({"x": torch.arange(2), "size": [7, 8]}, {"x": torch.tensor(1), "size": 8}),
            ((torch.arange(2), np.arange(2) * 5), (torch.tensor(1), 5)),
            (torch.arange(4).view(2, 2), torch.tensor([2, 3])),
        ],
    )
    def test_rows(self, found: Any, second: Any) -> None:
        source = SamplesInMemory(found)
        (given,) = source.inputs(1)
        assert source.count == 2
        torch.testing.assert_close(source.reader()(given.handle), second, rtol=0, atol=0)

    def test_a_handle_carries_its_own_row_only(self) -> None:
        source = SamplesInMemory(torch.zeros(1000, 1000))
        assert len(cloudpickle.dumps(next(source.inputs(5)))) < 10_000

    def test_what_a_transform_does_to_a_sample_stays_with_it(self) -> None:
        mine = [{"x": torch.zeros(2), "more": [np.zeros(2)]}]
        source = SamplesInMemory(mine)
        (given,) = source.inputs()
        sample = source.reader()(given.handle)
        sample["x"] += 1
        sample["more"][0] += 1
        assert mine[0]["x"].tolist() == [0, 0]  # type: ignore[attr-defined]
        assert source.reader()(given.handle)["more"][0].tolist() == [0, 0]


class TestIterableSource:
    def test_samples_are_the_handles(self) -> None:
        source = IterableSource(iter("abc"))
        assert source.count is None
        assert [source.reader()(each.handle) for each in source.inputs()] == ["a", "b", "c"]

    def test_an_iterator_is_gone_through_once(self) -> None:
        source = IterableSource(iter("abc"))
        assert len(list(source.inputs(1))) == 2
        with pytest.raises(UsageError, match="once only"):
            source.inputs()

    def test_a_function_is_asked_for_a_new_one_each_time(self) -> None:
        def numbers() -> Iterator[int]:
            yield from range(4)

        source = IterableSource(numbers)
        assert [each.handle for each in source.inputs()] == [0, 1, 2, 3]
        assert [each.handle for each in source.inputs(2)] == [2, 3]
        assert source.describe()["object"].endswith("numbers")

    def test_a_set_knows_its_length(self) -> None:
        assert IterableSource({1, 2}).count == 2

    def test_torch_says_that_there_is_no_length_by_a_type_error(self) -> None:
        class Endless(torch.utils.data.IterableDataset[int]):
            def __iter__(self) -> Iterator[int]:
                return iter(range(2))

            def __len__(self) -> int:
                raise TypeError

        assert IterableSource(Endless()).count is None

    def test_one_that_became_shorter_is_noticed(self) -> None:
        with pytest.raises(UsageError, match="ended after 3 samples, but the job has come to sample 5"):
            IterableSource("abc").inputs(5)

    def test_a_function_that_returns_nothing_iterable_is_named(self) -> None:
        with pytest.raises(UsageError, match=r"threading\.active_count gave builtins\.int"):
            IterableSource(threading.active_count).inputs()  # type: ignore[arg-type]

    def test_a_generator_is_known_by_its_function(self) -> None:
        assert "genexpr" in IterableSource(x for x in "abc").describe()["object"]
