"""Rules about code that is wrong or wasteful, whether or not it is slow, one per file.

Reading order:

* ``graph_leak`` - losses kept together with their graph
* ``unused_parameters`` - parameters that nothing trains
* ``eval_without_no_grad`` - validation that builds graphs
* ``eval_in_train_mode`` - validation in train mode
* ``bloated_save`` - files of ``torch.save`` with bytes that no tensor reaches

Imports ``evidence``, ``measure``, ``replay`` and ``common``; used by ``rules``.
"""
