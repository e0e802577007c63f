"""Reads along compressed streams, so that what passes can be counted. What the caller gets stays as it was
sent.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any

__all__ = ["Decoder", "decoder_for"]

Decoder = Callable[[bytes], bytes]


def decoder_for(encoding: str) -> Decoder | None:
    """What undoes a `content-encoding` piece by piece; `None` for one that cannot be undone here."""
    names = [name.strip().lower() for name in encoding.split(",") if name.strip() and name.strip().lower() != "identity"]
    if not names:
        return lambda piece: piece
    if len(names) > 1:
        return None
    if names[0] in ("gzip", "x-gzip"):
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress
    if names[0] == "deflate":
        return _Deflate()
    if names[0] == "br":
        return _brotli()
    if names[0] == "zstd":
        return _zstd()
    return None


class _Deflate:
    """Servers send zlib's format or, against the standard, the bare one."""

    def __init__(self) -> None:
        self._object: Any = None

    def __call__(self, piece: bytes) -> bytes:
        if self._object is not None:
            return bytes(self._object.decompress(piece))
        self._object = zlib.decompressobj()
        try:
            return bytes(self._object.decompress(piece))
        except zlib.error:
            self._object = zlib.decompressobj(-zlib.MAX_WBITS)
            return bytes(self._object.decompress(piece))


def _brotli() -> Decoder | None:
    for name in ("brotli", "brotlicffi"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        made = module.Decompressor()
        decode: Decoder = getattr(made, "decompress", None) or made.process
        return decode
    return None


def _zstd() -> Decoder | None:
    for name, maker in (
        ("compression.zstd", "ZstdDecompressor"),
        ("backports.zstd", "ZstdDecompressor"),
        ("zstandard", "ZstdDecompressor"),
    ):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        made = getattr(module, maker)()
        decode: Decoder = made.decompressobj().decompress if name == "zstandard" else made.decompress
        return decode
    return None
