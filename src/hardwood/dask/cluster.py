"""The cluster that work is done on: which it is, and whether it can do the work."""

from typing import Any

from hardwood.extras import explain_missing

# What has to be the same everywhere: kernels, and whatever models and results are made of.
PACKAGES = ("hardwood", "numpy", "numba", "sklearn")
_INSTALLED_AS = {"sklearn": "scikit-learn"}
# Evaluates to the release of each; None of those that are not there.
_ASK_VERSIONS = f"""{{
    name: __import__(name).__version__ if __import__("importlib.util").util.find_spec(name) else None
    for name in {PACKAGES}
}}"""


def find_client(client: Any) -> Any:
    """Return the client that was given, or the current one, once its cluster is known to be fit for the work."""
    try:
        import distributed
    except ImportError:
        raise ImportError(explain_missing("hardwood.dask", "distributed", "dask")) from None
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise ValueError("client=None: there is no current client; make one with distributed.Client(...)") from None
    if not isinstance(client, distributed.Client):
        raise ValueError(f"client: expected a distributed.Client, got {type(client).__name__!r}")
    if client.status != "running":
        raise RuntimeError(f"client: it is {client.status}, not running; make another with distributed.Client(...)")
    if client.asynchronous:
        raise ValueError("client: it is asynchronous, and fit waits for results; make it with asynchronous=False")
    if not client.nthreads():
        raise RuntimeError("client: the cluster has no workers; start some, or wait with client.wait_for_workers(1)")
    _check_versions(client)
    return client


def _check_versions(client: Any) -> None:
    """Refuse machines without hardwood, or with other releases of what has to be the same."""
    own = eval(_ASK_VERSIONS)
    # A function of hardwood could not be called where there is no hardwood.
    answers = {
        f"worker {address}": said for address, said in client.run(eval, _ASK_VERSIONS, on_error="return").items()
    }
    for name, said in {"the scheduler": client.run_on_scheduler(eval, _ASK_VERSIONS), **answers}.items():
        if isinstance(said, BaseException):
            raise RuntimeError(f"{name} cannot be asked for its packages: {said}") from said
        for package, mine in own.items():
            installed_as, theirs = _INSTALLED_AS.get(package, package), said[package]
            if theirs is None:
                raise RuntimeError(f"{name} has no {installed_as}: install {installed_as} {mine} there, as here")
            if theirs != mine:
                raise RuntimeError(
                    f"{name} has {installed_as} {theirs} and the client {mine}: install the same release everywhere"
                )
