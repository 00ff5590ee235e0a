"""A property that is made when it is first looked at: once, whoever looks at the same
time. (`functools.cached_property` makes it once for each of them.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - it is used as a decorator
    """Decorates a method of a class whose instances have a reentrant `_lock`."""

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
                # kept under the same name, it is found from now on without coming here
                vars(instance)[self._name] = self._make(instance)
            made: T = vars(instance)[self._name]
            return made
