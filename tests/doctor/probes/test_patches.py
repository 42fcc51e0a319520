"""Patches are all undone, and others' are left alone."""

from cordwood.doctor.probes.patches import Patches


def test_patches_of_others_on_top_of_ours_stay() -> None:
    class Thing:
        def call(self) -> str:
            return "theirs"

    patches = Patches()
    patches.replace(Thing, "call", lambda self: "ours")
    over = Thing.call
    Thing.call = lambda self: f"over {over(self)}"  # type: ignore[method-assign]
    patches.undo()
    assert Thing().call() == "over ours"
    assert patches.left == ["Thing.call"]


def test_patches_delete_what_was_inherited() -> None:
    class Base:
        def call(self) -> str:
            return "base"

    class Thing(Base):
        pass

    patches = Patches()
    patches.replace(Thing, "call", lambda self: "ours")
    assert Thing().call() == "ours"
    patches.undo()
    assert "call" not in vars(Thing)
