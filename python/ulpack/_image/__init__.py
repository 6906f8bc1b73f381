"""Images of checkpoint files: what it takes to write the original files again, byte for byte."""

from __future__ import annotations

from .layout import File, Header, Image, Literal, Rest, Tensors, decode_image, encode_image, image_files

__all__ = ["File", "Header", "Image", "Literal", "Rest", "Tensors", "decode_image", "encode_image", "image_files"]
