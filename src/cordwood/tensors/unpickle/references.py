"""Finds everything that refers to the storages of a pickle: tensors, or other objects.

::

    references = find_references(description)
    for sighted in references.views: ...          # every tensor over a storage
    id(persistent) in references.otherwise        # something that is no tensor has it, too
"""

from dataclasses import dataclass, field

from cordwood.tensors.unpickle.describe import Description, Persistent, StorageView, children, nodes, sight


@dataclass(slots=True)
class References:
    """What was found; storages by the identity of their node."""

    views: list[StorageView] = field(default_factory=list)
    otherwise: set[int] = field(default_factory=set)


def find_references(description: Description) -> References:
    """Look at everything that can be reached, and at what was asked for and then dropped: who had that is not known."""
    found = References()
    everything = list(nodes(description.root))
    arguments: set[int] = set()  # of views
    holders: dict[int, tuple[int, set[int]]] = {}  # what tells of a storage -> that storage, and who may hold it
    for node in everything:
        sighted = sight(node)
        if sighted is None:
            continue
        found.views.append(sighted)
        arguments.add(id(sighted.arguments))
        storage = id(sighted.storage)
        holders.setdefault(id(node.arguments), (storage, set()))[1].add(id(node))
        if node.arguments is not sighted.arguments:
            holders.setdefault(id(sighted.arguments), (storage, set()))[1].add(id(node.arguments))
    for persistent in description.hooks.persistents:
        holders.setdefault(id(persistent.identity), (id(persistent), set()))[1].add(id(persistent))
    reached: set[int] = set()
    for node in [(description.root,), *everything]:
        for position, child in enumerate(children(node)):
            if isinstance(child, Persistent):
                reached.add(id(child))
                if id(node) not in arguments or position != 0:
                    found.otherwise.add(id(child))
            elif id(child) in holders and id(node) not in holders[id(child)][1]:
                found.otherwise.add(holders[id(child)][0])
    found.otherwise |= {id(each) for each in description.hooks.persistents} - reached
    return found
