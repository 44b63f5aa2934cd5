"""Runs the client's kubeconfig loader so that it prints nothing and every failure is one message."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml
from kubernetes.config import ConfigException

from driver.adapters.files.input_file import path_name
from driver.errors import InputError

__all__ = ["loading"]

_SHOWN: Final = 300  # characters: some of the loader's messages hold all that it has read
_EXPECTED: Final = (ConfigException, OSError, yaml.YAMLError, ValueError)
_BUGS: Final = (TypeError, AttributeError, KeyError, IndexError, RecursionError)
_HINT: Final = "check it with `kubectl --kubeconfig=… version`"


class _Errors(logging.Handler):
    """Collects what the loader logs: a credential plugin that failed, without which it continues."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@contextmanager
def loading(files: str) -> Iterator[None]:
    """Turn the failures of the client's loader, called in the body to read ``files``, into one error.

    Raises:
        InputError: The loader failed, or its credential plugin did.
    """
    shown = path_name(Path(files))
    errors = _Errors()
    root = logging.getLogger()
    root.addHandler(errors)
    try:
        yield
    except _EXPECTED as error:
        raise InputError(f"{shown}: not a usable kubeconfig: {_one_line(str(error))}", hint=_HINT) from error
    except _BUGS as error:
        # For a malformed file the loader raises an error of its own code.
        wanted = "expected clusters, contexts and users as `kubectl config view` prints them"
        raise InputError(f"{shown}: not a usable kubeconfig: {wanted}", hint=_HINT) from error
    finally:
        root.removeHandler(errors)
    if errors.texts:
        reason = _one_line(errors.texts[-1].removeprefix("exec: "))
        raise InputError(f"{shown}: its credential plugin (exec) gives no credentials: {reason}", hint=_HINT)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_SHOWN]
