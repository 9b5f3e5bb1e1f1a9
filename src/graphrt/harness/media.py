"""Images, audio and documents in messages, as immutable values that validate themselves.

A value has either bytes or a URL. The type of bytes is detected from how they begin, so that a file with a wrong name
is found before a provider rejects it. A URL is passed on to the provider; neither this module nor those below it fetch
one.

Journals store the bytes once, under their SHA-256 (`graphrt._codec.media`). `harness.litellm` defines the forms that
providers expect.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, final
from urllib.parse import unquote_to_bytes, urlsplit

import typing_extensions as te

from graphrt._display import OUTLINES
from graphrt.errors import InputError, a_type
from graphrt.errors._codes.requests import BAD_MEDIA
from graphrt.harness._surrogates import whole

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

    from graphrt.harness._media_files import StrPath

__all__ = ["MAX_MEDIA", "MAX_MEDIA_BYTES", "Audio", "Document", "Image", "Media", "MediaKind"]

MediaKind: TypeAlias = Literal["image", "audio", "document"]
"""The kind of the part: the class in small letters."""

MAX_MEDIA_BYTES: Final = 20 * 1024 * 1024
"""Maximum number of bytes of one part, unless `max_bytes=` is set. Most providers do not accept larger requests."""
MAX_MEDIA: Final = 100
"""Maximum number of images, audio and documents in one message."""
_MAX_URL: Final = 8_192
"""Longest URL, in characters; data URLs are bounded by their bytes."""

_IMAGES: Final = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF87a", "gif"), (b"GIF89a", "gif"))
_AUDIO: Final = (
    (b"ID3", "mpeg"),
    (b"fLaC", "flac"),
    (b"OggS", "ogg"),
    (b"\xff\xf1", "aac"),
    (b"\xff\xf9", "aac"),
    (b"\x1a\x45\xdf\xa3", "webm"),
)
"""Initial bytes of files, and their subtypes."""
_RIFF: Final[Mapping[bytes, str]] = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
"""The format name at byte 8 of a RIFF file."""
_BRANDS: Final[Mapping[bytes, str]] = {
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"avif": "image/avif",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
}
"""The brand at byte 8 of a file of ISO's base media format, after `ftyp`."""
_SUFFIXES: Final[Mapping[str, str]] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "m4a": "audio/mp4",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "xml": "application/xml",
    "json": "application/json",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
"""Media types by the end of a name: of URLs, and of files whose bytes do not say more than that they are text or a ZIP."""
_ALIASES: Final[Mapping[str, str]] = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "application/x-pdf": "application/pdf",
}
"""Aliases of media types, with the names used here."""
_TOLD_BY_BYTES: Final = frozenset(
    {f"image/{kind}" for _, kind in _IMAGES} | {f"audio/{kind}" for _, kind in _AUDIO}
    | {*_RIFF.values(), *_BRANDS.values(), "application/pdf"}
)  # fmt: skip
"""Media types that `_by_bytes` recognizes; bytes that begin differently are not of these types."""
_TEXT: Final = "text/plain"
_ZIP: Final = "application/zip"


class Media:
    """An image, audio or a document, as bytes or as a URL. Its subclasses are the values: `Image`, `Audio`, `Document`.

    Values are immutable, equal by content, and shown by type and size.
    """

    __slots__ = ("_data", "_digest", "_media_type", "_name", "_url")

    kind: ClassVar[MediaKind]
    _prefixes: ClassVar[tuple[str, ...]]
    """How media types of the class begin; empty for any."""

    def __init__(self, *, url: str, media_type: str | None = None, name: str | None = None) -> None:
        """Refer to *url*, which the provider fetches; the bytes of a `data:` URL are taken out of it.

        Args:
            url: An http or https URL without user and password, or a `data:` URL.
            media_type: Such as "image/png". None: by the end of the URL's path, or unknown.
            name: Name of the file, which models may be shown.

        Raises:
            InputError: It is another URL, or the bytes of a `data:` URL are not such a part (`bad-media`).
        """
        self._check_texts(media_type, name)
        value: Any = url
        if not isinstance(value, str):
            raise self._bad(f"cannot be made of {a_type(value)}", "Pass an http, https or data URL.")
        if value[:5].lower() == "data:":
            data, url_type = self._of_data_url(value)
            self._take(data, media_type or url_type or None, name, MAX_MEDIA_BYTES)
            return
        self._url: str | None = self._checked_url(value)
        if media_type is None:
            path = urlsplit(value).path
            media_type = _SUFFIXES.get(path.rpartition(".")[2].lower())
            if media_type is not None and not self._is_mine(media_type):
                media_type = None
        elif not self._is_mine(media_type):
            raise self._bad(f"cannot be of the media type {media_type!r}", self._other_class(media_type))
        self._data: bytes | None = None
        self._digest: str | None = None
        self._media_type: str | None = media_type and _normal(media_type)
        self._name: str | None = name

    @classmethod
    def from_bytes(
        cls, data: bytes, *, media_type: str | None = None, name: str | None = None, max_bytes: int = MAX_MEDIA_BYTES
    ) -> te.Self:
        """Make a part of *data*.

        Args:
            data: The content of a file.
            media_type: Such as "image/png". None: detected from the bytes, and for texts and ZIP files from *name*.
            name: Name of the file, which models may be shown.
            max_bytes: Largest size, in bytes.

        Raises:
            InputError: The data is empty, too large or not of this kind, or *media_type* contradicts it (`bad-media`).
        """
        part = cls.__new__(cls)
        part._check_texts(media_type, name)
        part._take(data, media_type, name, max_bytes)
        return part

    @classmethod
    def from_path(
        cls,
        path: StrPath,
        *,
        media_type: str | None = None,
        root: StrPath | None = None,
        max_bytes: int = MAX_MEDIA_BYTES,
    ) -> te.Self:
        """Read a file, whose name becomes that of the part. The size is checked before anything is read.

        Args:
            path: The file.
            media_type: As for `from_bytes`.
            root: Folder that the file must be in, links followed: for paths that a user or a model wrote. A relative
                *path* is looked up in it. None: any file.
            max_bytes: Largest size, in bytes.

        Raises:
            InputError: There is no such file, it is a directory or outside *root*, or as for `from_bytes`
                (`bad-media`).
        """
        from graphrt.harness._media_files import read  # the only place that opens a file

        part = cls.__new__(cls)
        part._check_texts(media_type, None)

        def check_size(size: int, where: str) -> None:
            part._check_size(size, max_bytes, where)

        file = read(path, root=root, max_bytes=max_bytes, check_size=check_size, wrong=part._bad)
        part._take(file.data, media_type, file.name, max_bytes, where=file.path)
        return part

    @property
    def data(self) -> bytes | None:
        """The bytes; None if there is a URL."""
        return self._data

    @property
    def url(self) -> str | None:
        """The http or https URL, which the provider fetches; None if there are bytes."""
        return self._url

    @property
    def media_type(self) -> str | None:
        """Such as "image/png"; None only for a URL that does not show it."""
        return self._media_type

    @property
    def name(self) -> str | None:
        """Name of the file; None if it has none."""
        return self._name

    @property
    def size(self) -> int | None:
        """Number of bytes; None if there is a URL."""
        return None if self._data is None else len(self._data)

    @property
    def sha256(self) -> str | None:
        """SHA-256 of the bytes in hexadecimal; None if there is a URL."""
        if self._digest is None and self._data is not None:
            from hashlib import sha256  # loads OpenSSL

            object.__setattr__(self, "_digest", sha256(self._data).hexdigest())
        return self._digest

    @property
    def is_text(self) -> bool:
        """Whether the bytes are a text in UTF-8, such as a CSV file."""
        kind = self._media_type or ""
        return kind.startswith("text/") or kind in ("application/json", "application/xml")

    def outline(self) -> dict[str, Any]:
        """Return a description for logs and digests: kind, media type, size, SHA-256, URL and name; never the bytes."""
        fields = {
            "kind": self.kind,
            "media_type": self._media_type,
            "size": self.size,
            "sha256": self.sha256,
            "url": self._url,
            "name": self._name,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def data_url(self) -> str:
        """Return the bytes as a `data:` URL; the URL itself if there are none."""
        if self._data is None:
            return str(self._url)
        return f"data:{self._media_type};base64,{b64encode(self._data).decode('ascii')}"

    # -- checks ----------------------------------------------------------------------------------------------------

    def _check_texts(self, media_type: Any, name: Any) -> None:
        for parameter, value in (("media_type", media_type), ("name", name)):
            if value is not None and (not isinstance(value, str) or not value):
                raise self._bad(f"cannot have {parameter}={value!r}", "Pass a text, or leave it out.")
        if media_type is not None and not all(media_type.partition("/")):
            raise self._bad(f"cannot have media_type={media_type!r}", 'Pass a media type such as "image/png".')

    def _take(self, data: Any, media_type: str | None, name: str | None, max_bytes: int, *, where: str = "") -> None:
        """Set all fields; *data* is checked, and its media type found."""
        if isinstance(data, bytearray):
            data = bytes(data)
        if not isinstance(data, bytes):
            raise self._bad(f"cannot be made of {a_type(data)}", "Pass the bytes of a file.")
        self._check_size(len(data), max_bytes, where)
        set_field = object.__setattr__
        set_field(self, "_url", None)
        set_field(self, "_data", data)
        set_field(self, "_digest", None)
        set_field(self, "_name", None if name is None else whole(name))
        set_field(self, "_media_type", self._told_type(data, media_type, name, where))

    def _check_size(self, size: int, max_bytes: int, where: str) -> None:
        if size == 0:
            raise self._bad("is empty", "Pass the bytes of a file.", where)
        if size > max_bytes:
            problem = f"has {size:,} bytes, and {max_bytes:,} are allowed"
            raise self._bad(problem, "Make it smaller, or pass max_bytes= if the provider takes more.", where)

    def _told_type(self, data: bytes, declared: str | None, name: str | None, where: str) -> str:
        """Return the media type of *data*, which must not contradict *declared*."""
        detected = _by_bytes(data)
        by_name = _SUFFIXES.get((name or "").rpartition(".")[2].lower())
        if detected in (_TEXT, _ZIP) and by_name is not None and by_name not in _TOLD_BY_BYTES:
            detected = by_name  # the bytes of a CSV file only say that it is a text
        if declared is None:
            if detected is None or (detected == _ZIP and self.kind == "document"):
                known = (
                    "begins as no file that graphrt knows" if detected is None else "is a ZIP file of an unknown kind"
                )
                raise self._bad(known, 'Pass media_type="...".', where)
            if not self._is_mine(detected):
                raise self._bad(f"is of the media type {detected!r}", self._other_class(detected), where)
            return detected
        declared = _normal(declared)
        if not self._is_mine(declared):
            raise self._bad(f"cannot be of the media type {declared!r}", self._other_class(declared), where)
        # A type that can be detected from the bytes must be detected; for others, such as "image/tiff", the caller is
        # trusted.
        if (declared in _TOLD_BY_BYTES or detected in _TOLD_BY_BYTES) and not _agree(declared, detected):
            known = "they begin as no file that graphrt knows" if detected is None else f"they are {detected!r}"
            raise self._bad(
                f"has media_type={declared!r}, which its bytes are not: {known}", "Leave media_type out.", where
            )
        return declared

    def _is_mine(self, media_type: str) -> bool:
        return media_type.lower().startswith(self._prefixes) if self._prefixes else True

    def _other_class(self, media_type: str) -> str:
        kind = media_type.partition("/")[0].lower()
        class_name = "Image" if kind == "image" else "Audio" if kind == "audio" else "Document"
        if class_name == type(self).__name__:
            return f"Pass a media type of {class_name}."
        return f"Use {class_name} for it."

    def _of_data_url(self, url: str) -> tuple[bytes, str]:
        """Return the bytes and the media type of a `data:` URL; an empty type if it names none."""
        head, comma, body = url[5:].partition(",")
        if not comma:
            raise self._bad("has a data: URL without a comma", "Write it as data:image/png;base64,....")
        media_type, *rest = head.split(";")
        if "base64" not in [part.strip().lower() for part in rest]:
            return unquote_to_bytes(body), media_type
        self._check_size(max(1, len(body) * 3 // 4 - 2), MAX_MEDIA_BYTES, "")  # before it is decoded
        try:
            return b64decode(body, validate=True), media_type
        except (Base64Error, ValueError):
            raise self._bad("has a data: URL that is not base64", "Encode the bytes with base64.b64encode().") from None

    def _checked_url(self, url: str) -> str:
        """Return *url* if it may be passed to a provider."""
        try:
            parts = urlsplit(url)
            host, user = parts.hostname, parts.username
        except ValueError:
            host = user = None
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not host:
            raise self._bad(
                f"cannot have the URL {url[:60]!r}",
                "Pass an http or https URL, or a data URL; read files with from_path().",
            )
        if user is not None or parts.password is not None:
            raise self._bad("has a URL with a user or password in it", "Pass a URL without credentials.")
        if len(url) > _MAX_URL or not url.isprintable() or " " in url:
            raise self._bad(f"has a URL of {len(url):,} characters, or one with spaces", f"Use at most {_MAX_URL:,}.")
        return whole(url)

    def _bad(self, problem: str, fix: str, where: str = "") -> InputError:
        subject = a_type(self)
        return BAD_MEDIA(subject=subject[:1].upper() + subject[1:], problem=problem, fix=fix, where=where)

    # -- values ----------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field of a new value; raise afterwards."""
        if name not in Media.__slots__ or hasattr(self, name):
            raise AttributeError(f"{type(self).__name__} is immutable: {name!r} cannot be set")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name!r} cannot be deleted")

    def _key(self) -> tuple[Any, ...]:
        return (self.kind, self.sha256, self._url, self._media_type, self._name)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Media) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __copy__(self) -> te.Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> te.Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return self._restored, (self._data, self._url, self._media_type, self._name)

    @classmethod
    def _restored(cls, data: bytes | None, url: str | None, media_type: str | None, name: str | None) -> te.Self:
        """Return the value with these fields, which were checked when it was first created.

        The codec also calls this.
        """
        part = cls.__new__(cls)
        set_field = object.__setattr__
        fields = (("_data", data), ("_url", url), ("_media_type", media_type), ("_name", name), ("_digest", None))
        for field, value in fields:
            set_field(part, field, value)
        return part

    def __repr__(self) -> str:
        name = f", name={self._name!r}" if self._name is not None else ""
        if self._data is None:  # what follows the path may be a signature that grants access
            url = str(self._url).partition("?")[0]
            return f"<{type(self).__name__} {url[:200]}{'?...' if '?' in str(self._url) else ''}{name}>"
        return f"<{type(self).__name__} {self._media_type}, {self.size:,} bytes, sha256 {str(self.sha256)[:16]}{name}>"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Accept an instance, or plain data with base64; write plain data as JSON."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls._validated,
            serialization=core_schema.plain_serializer_function_ser_schema(_as_json, info_arg=True, when_used="json"),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the plain data: bytes in base64, or a URL."""
        text = {"type": "string"}
        alternatives: list[Any] = [{"required": ["data"]}, {"required": ["url"]}]
        return {
            "title": cls.__name__,
            "type": "object",
            "properties": {
                "kind": {"const": cls.kind, "type": "string"},
                "data": {"type": "string", "contentEncoding": "base64"},
                "url": {"type": "string", "format": "uri"},
                "media_type": text,
                "name": text,
            },
            "required": ["kind"],
            "oneOf": alternatives,
        }

    @classmethod
    def _validated(cls, value: Any) -> te.Self:
        """Return *value*, an instance or plain data, as an instance.

        Raises:
            ValueError: It is neither, or the part is not valid.
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise ValueError(f"expected {cls.__name__}")  # noqa: TRY004 - pydantic wants a ValueError
        fields: dict[str, Any] = {str(name): item for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        unknown = fields.keys() - {"kind", "data", "url", "media_type", "name"}
        if fields.get("kind") != cls.kind or unknown or ("data" in fields) == ("url" in fields):
            raise ValueError(f"expected kind={cls.kind!r} and either data or url, perhaps media_type and name")
        options: Any = {name: fields.get(name) for name in ("media_type", "name")}
        try:
            if "url" in fields:
                return cls(url=fields["url"], **options)
            data = fields["data"]
            if isinstance(data, str):
                data = b64decode(data, validate=True)
            return cls.from_bytes(data, **options)
        except InputError as error:
            raise ValueError(error.what) from None


@final
class Image(Media):
    """A picture: PNG, JPEG, GIF, WebP, HEIC, or another type that the provider takes.

    `Image.from_path("x.png")`, `Image.from_bytes(data)` or `Image(url="https://...")`.
    """

    __slots__ = ()
    kind: ClassVar[MediaKind] = "image"
    _prefixes = ("image/",)


@final
class Audio(Media):
    """Recorded sound: WAV, MP3, FLAC, Ogg, M4A, AAC, WebM, or another type that the provider takes."""

    __slots__ = ()
    kind: ClassVar[MediaKind] = "audio"
    _prefixes = ("audio/",)


@final
class Document(Media):
    """A file that is not a picture or sound: a PDF, a text, a table, or another type that the provider takes."""

    __slots__ = ()
    kind: ClassVar[MediaKind] = "document"
    _prefixes = ("application/", "text/", "video/")


KINDS: Final[Mapping[MediaKind, type[Image | Audio | Document]]] = {one.kind: one for one in (Image, Audio, Document)}
"""Maps a kind to its class."""


def made_of(data: bytes, media_type: str | None, name: str | None = None) -> Image | Audio | Document:
    """Return the part for *data* that a provider or a server sent, by its media type, or by the bytes without one.

    Raises:
        InputError: The data is empty, too large, or contradicts its media type (`bad-media`).
    """
    known_type = media_type or _by_bytes(data) or ""
    kind: Any = known_type.partition("/")[0].lower()
    cls = KINDS.get(kind, Document)
    return cls.from_bytes(data, media_type=media_type, name=name)


def _as_json(value: Any, info: Any) -> Any:
    """Return plain data that validates again; or a description for logs, if the context asks for outlines."""
    if not isinstance(value, Media):
        return value
    if info.context == OUTLINES:
        return value.outline()
    if value.data is None:
        return value.outline()
    data = {name: item for name, item in value.outline().items() if name not in ("size", "sha256")}
    return data | {"data": b64encode(value.data).decode("ascii")}


def _normal(media_type: str) -> str:
    """Return the media type without parameters, in small letters, under the name that is used here."""
    kind = media_type.partition(";")[0].strip().lower()
    return _ALIASES.get(kind, kind)


def _agree(declared: str, detected: str | None) -> bool:
    """Return whether bytes that look like *detected* may be of the type *declared*."""
    if declared == detected:
        return True
    families: tuple[set[str], ...] = (
        {"image/heic", "image/heif", "image/avif"},  # the first brand of a file may be that of the family
        {"audio/ogg", "audio/opus"},
        {"audio/webm", "video/webm"},
        {"audio/mpeg", "audio/aac"},
        {"audio/mp4", "video/mp4"},
    )
    return any(declared in family and detected in family for family in families)


def _by_bytes(data: bytes) -> str | None:
    """Return the media type that the first bytes of *data* show; None if they show none."""
    head = data[:16]
    for begin, subtype in _IMAGES:
        if head.startswith(begin):
            return f"image/{subtype}"
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    for begin, subtype in _AUDIO:
        if head.startswith(begin):
            return f"audio/{subtype}"
    if head[:1] == b"\xff" and len(head) > 1 and head[1] & 0xE6 == 0xE2:  # frame sync of MPEG audio, layer III
        return "audio/mpeg"
    if b"%PDF-" in data[:1024]:  # a PDF may begin with other bytes
        return "application/pdf"
    if head[:4] == b"PK\x03\x04":
        return _ZIP
    return _TEXT if _is_text(data) else None


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return True
