"""`Secret`: a value that is never written.

`_codec.secrets` stores only the fact that it existed. Nothing else belongs here: any package may hold a Secret, and
only `reveal` gives access to its value.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Generic, NoReturn, TypeVar, final

from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS
from graphrt.errors._codes.audit import SECRET_ABSENT, SECRET_PICKLED

__all__ = ["Secret"]

T_co = TypeVar("T_co", covariant=True)
"""Type of the value. Covariant: a Secret is only read."""
_MASK: Final = "Secret(***)"
_ABSENT: Final = object()
"""Placeholder for the value of a Secret that was read from a store."""


@final
class Secret(Generic[T_co]):
    """A value that is never written. No journal, log, event, stream or error shows it; `reveal()` returns it.

    As a type of a state field, `Secret[str]` accepts a Secret of a text, and wraps a bare text in one. A store records
    only that there was a secret. After a resume in another process, the Secret exists but knows that its value is
    absent.

    Secrets are equal if their values are. Texts and bytes are compared in constant time. A Secret is not hashable,
    because a hash could be compared with hashes of guesses.

    Args:
        value: The value, of any type.

    Raises:
        InputError: *value* is a Secret itself (`input`).
    """

    __slots__ = ("__value", "_place")

    def __init__(self, value: T_co) -> None:
        if isinstance(value, Secret):
            raise ARGUMENT_OUT_OF_BOUNDS(
                problem="A Secret was given to Secret() as its value",
                wanted="the value itself, or use the Secret that there is",
            )
        self.__value: Any = value
        self._place = ""

    @classmethod
    def _absent(cls, place: str) -> Secret[Any]:
        """Return a Secret without its value. *place* is the name of its field, empty if it is not in one."""
        secret: Secret[Any] = Secret(_ABSENT)
        secret._place = place
        return secret

    @property
    def known(self) -> bool:
        """Whether the value is available; false after a restart."""
        return self.__value is not _ABSENT

    def reveal(self) -> T_co:
        """Return the value.

        Raises:
            InputError: The Secret was read from a store, which does not contain the value (`secret-absent`).
        """
        if self.__value is _ABSENT:
            raise SECRET_ABSENT(
                place=f" in field {self._place!r}" if self._place else "",
                how=f"runtime.update(thread, {{{self._place!r}: Secret(...)}})" if self._place else "an update",
                field=self._place or None,
            )
        value: T_co = self.__value
        return value

    def __repr__(self) -> str:
        return _MASK

    __str__ = __repr__

    def __format__(self, spec: str, /) -> str:
        return format(_MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        value, other_value = self.__value, other.__value
        if value is _ABSENT or other_value is _ABSENT:
            return value is other_value and self._place == other._place
        from hmac import compare_digest  # loads OpenSSL

        if isinstance(value, str) and isinstance(other_value, str):
            return compare_digest(value.encode(errors="surrogatepass"), other_value.encode(errors="surrogatepass"))
        if isinstance(value, bytes) and isinstance(other_value, bytes):
            return compare_digest(value, other_value)
        return bool(value == other_value)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # a class without a hash is declared so

    def __copy__(self) -> Secret[T_co]:
        return self

    def __deepcopy__(self, memo: object) -> Secret[T_co]:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise SECRET_PICKLED()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return a schema with which pydantic validates the value inside and serializes only the mask."""
        import typing

        from pydantic_core import PydanticCustomError, core_schema

        args = typing.get_args(source)
        inner = handler.generate_schema(args[0]) if args else core_schema.any_schema()

        def checked(value: Any, check: Any) -> Any:
            passed: Any = value
            is_secret = passed.__class__ is Secret
            if is_secret and not passed.known:
                return passed
            bare: Any = passed.reveal() if is_secret else passed
            try:
                validated: Any = check(bare)
            except ValueError:
                validated = _ABSENT
            if validated is _ABSENT:  # outside of the `except`: pydantic's error quotes the value
                raise PydanticCustomError("secret", "the value of a Secret does not fit its type")
            return passed if is_secret and validated is bare else Secret[Any](validated)

        return core_schema.no_info_wrap_validator_function(
            checked,
            inner,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value, info: _MASK if info.mode == "json" else value,
                info_arg=True,
                return_schema=core_schema.any_schema(),
            ),
        )
