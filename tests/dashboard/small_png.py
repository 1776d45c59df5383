"""Makes a picture of a page small: its colours are few, so that a palette holds nearly all of them."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser

MOST_COLOURS = 256
COMMONEST = 160
BLOCK = 4096
READ = """async (address) => {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  return [image.width, image.height, new Uint8Array(data.buffer).toBase64()];
}"""


def shrink(browser: Browser, file: Path) -> None:
    """Keep 256 colours; each other colour becomes the nearest of them. The browser reads the picture."""
    page = browser.new_page()
    width, height, pixels = page.evaluate(READ, "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode())
    page.close()
    rgb = np.frombuffer(base64.b64decode(pixels), dtype=np.uint8).reshape(-1, 4)[:, :3].astype(np.uint32)
    packed = (rgb[:, 0] << 16) | (rgb[:, 1] << 8) | rgb[:, 2]
    colours, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    kept = _palette(colours, counts)
    nearest = np.concatenate([_nearest(colours[at : at + BLOCK], kept) for at in range(0, len(colours), BLOCK)])
    rows = nearest[places].astype(np.uint8).reshape(height, width)
    raw = np.concatenate([np.zeros((height, 1), dtype=np.uint8), rows], axis=1).tobytes()
    palette = _split(kept).astype(np.uint8).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks))


def _palette(colours: Any, counts: Any) -> Any:
    """The commonest colours, and then those that the others are the farthest from: a small mark keeps its colour."""
    chosen = list(np.argsort(-counts, kind="stable")[:COMMONEST])
    split, weight = _split(colours), np.sqrt(counts)
    away = np.full(len(colours), np.inf)
    for place in chosen:
        away = np.minimum(away, ((split - split[place]) ** 2).sum(axis=1))
    while len(chosen) < min(MOST_COLOURS, len(colours)):
        place = int((away * weight).argmax())
        chosen.append(place)
        away = np.minimum(away, ((split - split[place]) ** 2).sum(axis=1))
    return colours[chosen]


def _split(colours: Any) -> Any:
    return np.stack([colours >> 16 & 255, colours >> 8 & 255, colours & 255], axis=1).astype(np.int32)


def _nearest(colours: Any, kept: Any) -> Any:
    distance = ((_split(colours)[:, None, :] - _split(kept)[None, :, :]) ** 2).sum(axis=2)
    return distance.argmin(axis=1)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
