"""Finds layers that behave differently in train mode, so that validation must not run in it."""

from torch import nn


def layers_in_train_mode(module: nn.Module) -> list[str]:
    """The names of a module's layers that are in train mode now, and whose results depend on that.

    A layer that is frozen in eval mode inside a module in train mode is so on purpose.
    """
    return [
        name or type(layer).__name__ for name, layer in module.named_modules() if layer.training and _depends(layer)
    ]


def learns_statistics(module: nn.Module) -> bool:
    """Whether forward passes in train mode change what the module knows of its data."""
    return any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in module.modules())


def _depends(layer: nn.Module) -> bool:
    if isinstance(layer, nn.modules.dropout._DropoutNd):
        return layer.p > 0
    return isinstance(layer, nn.modules.batchnorm._BatchNorm)
