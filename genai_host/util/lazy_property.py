"""A property that is computed once, on first use, also with concurrent threads.
`functools.cached_property` computes it once per thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - used as a decorator
    """Decorator for a method of a class whose instances have a reentrant `_lock`."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: Any, owner: type) -> lazy_property[T] | T:
        if instance is None:
            return self
        with instance._lock:
            if self._name not in vars(instance):
                # stored under the same name, it is found without this descriptor from now on
                vars(instance)[self._name] = self._make(instance)
            made: T = vars(instance)[self._name]
            return made
