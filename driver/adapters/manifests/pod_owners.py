"""Where the objects that controllers make pods of describe them, and how many pods there are at one time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

__all__ = ["MAX_POD_CLAIMS_IN_ALL", "POD_OWNERS", "PodTemplate", "WrongFieldError", "mapping"]

MAX_POD_CLAIMS_IN_ALL: Final = 10_000
"""The most claims of all pods of all files together: as many as a simulation tries in minutes."""

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """Where pods are described in an object, and how many.

    Attributes:
        path: The field with a pod's ``spec``.
        count: Returns how many pods there are at one time, called only if they name claims; None for a pod by itself.
        jobs: Returns how many Jobs have as many pods each, likewise; None for an object that has its pods itself.
        suffix: What is appended to the object's name in theirs.
        first: The number in the first pod's name.
    """

    path: Path
    count: Callable[[], int] | None = None
    jobs: Callable[[], int] | None = None
    suffix: str = ""
    first: int = 0


class WrongFieldError(Exception):
    """A field of an object is not valid.

    Attributes:
        path: The field.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


def _pod(data: Mapping[str, Any]) -> Iterator[PodTemplate]:  # noqa: ARG001 - as the others
    yield PodTemplate(())


def _replicated(data: Mapping[str, Any]) -> Iterator[PodTemplate]:
    yield PodTemplate(("spec", "template"), lambda: _count(data, ("spec", "replicas"), 1))


def _job(data: Mapping[str, Any]) -> Iterator[PodTemplate]:
    yield PodTemplate(("spec", "template"), lambda: _at_once(data, ()))


def _job_set(data: Mapping[str, Any]) -> Iterator[PodTemplate]:
    jobs = mapping(data, ("spec",)).get("replicatedJobs") or ()
    if not isinstance(jobs, list):
        raise WrongFieldError(("spec", "replicatedJobs"), "expected a list")
    for index in range(len(jobs)):
        path: Path = ("spec", "replicatedJobs", index)
        yield PodTemplate(
            (*path, "template", "spec", "template"),
            lambda path=path: _at_once(data, (*path, "template")),  # type: ignore[misc]
            lambda path=path: _count(data, (*path, "replicas"), 1),  # type: ignore[misc]
            suffix=f"-{mapping(data, path).get('name')}",
        )


def _leader_worker_set(data: Mapping[str, Any]) -> Iterator[PodTemplate]:
    """Yield the leaders and the workers of the groups (sigs.k8s.io/lws v0.9.0, api/leaderworkerset/v1).

    A group has ``size`` pods. The first is the leader: its template is the workers' where it has none of its own.
    """
    spec: Path = ("spec", "leaderWorkerTemplate")
    leader = "leaderTemplate" if mapping(data, (*spec, "leaderTemplate")) else "workerTemplate"
    yield PodTemplate((*spec, leader), lambda: _count(data, ("spec", "replicas"), 1))
    yield PodTemplate(
        (*spec, "workerTemplate"),
        lambda: max(_count(data, (*spec, "size"), 1) - 1, 0),
        lambda: _count(data, ("spec", "replicas"), 1),
        first=1,
    )


POD_OWNERS: Final[Mapping[tuple[object, str], Callable[[Mapping[str, Any]], Iterator[PodTemplate]]]] = {
    ("v1", "Pod"): _pod,
    ("v1", "ReplicationController"): _replicated,
    ("apps/v1", "Deployment"): _replicated,
    ("apps/v1", "ReplicaSet"): _replicated,
    ("apps/v1", "StatefulSet"): _replicated,
    ("batch/v1", "Job"): _job,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): _leader_worker_set,
}


def _at_once(data: Mapping[str, Any], path: Path) -> int:
    """Return how many pods of a Job run at one time (k8s.io/api/batch/v1, JobSpec), at most its completions."""
    spec = mapping(data, (*path, "spec"))
    if spec.get("suspend") is True:
        return 0
    parallelism = _count(data, (*path, "spec", "parallelism"), 1)
    return min(parallelism, _count(data, (*path, "spec", "completions"), parallelism))


def _count(data: Mapping[str, Any], path: Path, default: int) -> int:
    value = mapping(data, path[:-1]).get(path[-1])
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise WrongFieldError(path, "expected a whole number of pods")
    return min(value, MAX_POD_CLAIMS_IN_ALL + 1)


def mapping(data: Mapping[str, Any], path: Path) -> Mapping[Any, Any]:
    """Return the object at a path; an empty one if nothing is there.

    Raises:
        WrongFieldError: On the way is something else than an object or, before a number, a list.
    """
    here: Any = data
    found: Mapping[Any, Any] = data
    for depth, step in enumerate(path, start=1):
        here = here[step] if isinstance(step, int) else here.get(step)
        if here is None:
            return {}
        is_list = depth < len(path) and isinstance(path[depth], int)
        if not isinstance(here, list if is_list else dict):
            raise WrongFieldError(path[:depth], "expected a list" if is_list else "expected an object")
        found = here if isinstance(here, dict) else {}
    return found
