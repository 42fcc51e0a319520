"""What the user's code around a DataLoader says, read from the code alone."""

from pathlib import Path
from textwrap import dedent

import pytest

from cordwood.doctor.code.loader_call import LoaderCall, find_loader_call, iterated_name
from cordwood.doctor.evidence.findings import CodeLine


def script(tmp_path: Path, text: str) -> tuple[Path, int]:
    """A file, and the line in it that is marked with ``# here``."""
    path = tmp_path / "train.py"
    path.write_text(dedent(text).lstrip("\n"))
    lines = path.read_text().splitlines()
    return path, next(number for number, line in enumerate(lines, 1) if "# here" in line)


def call_in(tmp_path: Path, text: str) -> LoaderCall:
    path, line = script(tmp_path, text)
    call = find_loader_call(CodeLine(str(path), line))
    assert call is not None
    return call


def test_arguments_are_those_that_are_written(tmp_path: Path) -> None:
    call = call_in(
        tmp_path,
        """
        def main(args):
            train_set = Photos()
            loader = DataLoader(  # here
                train_set, args.batch_size,
                shuffle=not args.debug, num_workers=4, collate_fn=pad,
            )
        """,
    )
    assert call.dataset == "train_set"
    assert call.arguments == {
        "batch_size": "args.batch_size",
        "shuffle": "not args.debug",
        "num_workers": "4",
        "collate_fn": "pad",
    }
    assert call.is_complete
    assert (call.first_line, call.last_line) == (3, 6)
    assert call.with_call("cw.Loader(ds)").startswith("loader = cw.Loader(ds)")
    assert call.makers == ("Photos",)


def test_the_rest_of_a_statement_stays(tmp_path: Path) -> None:
    text = "def make():\n    return wrap(torch.utils.data.DataLoader(dataset=Data(), batch_size=4), 3)  # here\n"
    call = call_in(tmp_path, text)
    assert call.with_call("cw.Loader(ds)") == "return wrap(cw.Loader(ds), 3)  # here"
    assert call.dataset == "Data()"
    assert call.makers == ("Data",)


@pytest.mark.parametrize(
    ("text", "makers"),
    [
        ("data = make()\nloader = DataLoader(data)  # here", ("data", "make")),
        ("data = make(3)\nloader = DataLoader(data)  # here", ("data",)),
        ("data = make()\ndef main():\n    loader = DataLoader(data)  # here", ("data", "make")),
        ("data = make()\ndef main(data):\n    loader = DataLoader(data)  # here", ("make",)),
        ("def main():\n    data = make(3)\n    loader = DataLoader(data)  # here", ()),
        ("def main():\n    data = pkg.data.make()\n    loader = DataLoader(data)  # here", ("pkg.data.make",)),
        ("def main():\n    a, b = split(make())\n    loader = DataLoader(a)  # here", ()),
        ("def other():\n    data = make()\ndef main():\n    loader = DataLoader(data)  # here", ()),
        ("if __name__ == '__main__':\n    data = make()\n    loader = DataLoader(data)  # here", ("make",)),
        (
            "class M:\n    def setup(self):\n        self.data = make()\n"
            "    def train_dataloader(self):\n        return DataLoader(self.data)  # here",
            ("make",),
        ),
        ("class M:\n    def f(self):\n        data = self.make()\n        return DataLoader(data)  # here", ()),
    ],
)
def test_names_that_give_the_dataset(tmp_path: Path, text: str, makers: tuple[str, ...]) -> None:
    assert call_in(tmp_path, text).makers == makers


@pytest.mark.parametrize(
    "text",
    [
        "for batch in DataLoader(data): pass  # here",
        "a, b = DataLoader(data), DataLoader(other)  # here",
        "loader = make_loader(data)  # here",
        "loader = DataLoader(**options)  # here",
        "loader = DataLoader(  # here",
    ],
)
def test_what_cannot_be_told_is_not_guessed(tmp_path: Path, text: str) -> None:
    path, line = script(tmp_path, text)
    assert find_loader_call(CodeLine(str(path), line)) is None


def test_options_that_are_hidden_are_noticed(tmp_path: Path) -> None:
    assert not call_in(tmp_path, "loader = DataLoader(data, **options)  # here").is_complete
    assert not call_in(tmp_path, "loader = DataLoader(data, *options)  # here").is_complete


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    assert find_loader_call(CodeLine(str(tmp_path / "gone.py"), 1)) is None
    assert find_loader_call(None) is None
    assert iterated_name(None) is None


LOADER = "data = make()\ndef main():\n    loader = DataLoader(data)  # here\n"


@pytest.mark.parametrize(
    ("more", "safe"),
    [
        ("", True),
        ("'''A script.'''\nimport torch\nfrom a import b\n", True),
        ("torch.manual_seed(0)\nlogging.basicConfig()\n", True),
        ("if __name__ == '__main__':\n    main()\n", True),
        ("try:\n    import a\nexcept ImportError:\n    a = None\n", True),
        ("sizes = [len(x) for x in range(3)]\nclass A: pass\n", True),
        ("main()\n", False),
        ("result = main()\n", False),
        ("for epoch in range(3): pass\n", False),
        ("args = parser.parse_args()\n", False),
        ("path = sys.argv[1]\n", False),
        ("with open('log', 'w') as log: pass\n", False),
        ("trained = trainer.fit(model)\n", False),
        ("if __name__ == '__main__':\n    main()\nelse:\n    run()\n", False),
        ("if True:\n    main()\n", False),
    ],
)
def test_whether_a_script_may_be_imported(tmp_path: Path, more: str, safe: bool) -> None:
    assert call_in(tmp_path, LOADER + more).can_be_imported is safe


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("for x, y in loader:  # here\n    pass", "loader"),
        ("for i, (x, y) in enumerate(tqdm(self.loader)):  # here\n    pass", "self.loader"),
        ("for x in make():  # here\n    pass", None),
        ("x = [batch for batch in loader]  # here", "loader"),
        ("x, y = next(iter(self.loader))  # here", "self.loader"),
        ("x, y = next(iter(make()))  # here", None),
        ("pass  # here", None),
    ],
)
def test_the_name_of_what_is_iterated(tmp_path: Path, text: str, name: str | None) -> None:
    path, line = script(tmp_path, text)
    assert iterated_name(CodeLine(str(path), line)) == name
