"""What to install for what is optional."""

# Modules of packages that have another name.
_PACKAGES = {"art": "adversarial-robustness-toolbox"}


def explain_missing(purpose: str, *modules: str) -> str:
    """Say what a purpose needs and how to install it: the packages themselves, wherever hardwood came from.

    Examples
    --------
    >>> explain_missing("drawing", "matplotlib")
    'drawing needs matplotlib, which is not installed: pip install matplotlib'
    """
    packages = " ".join(_PACKAGES.get(module, module) for module in modules)
    return f"{purpose} needs {modules[0]}, which is not installed: pip install {packages}"
