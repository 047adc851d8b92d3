"""The App's RSA key, as people write it into a setting or have it in a file."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import SecretStr


def in_file(path: Path) -> str:
    """The text of a file.

    Raises:
        ValueError: it can't be read.
    """
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a PEM text file"
        raise ValueError(f"PRIVATE_KEY_PATH {path} can't be read: {reason}") from error


def rsa_pem(text: str) -> SecretStr:
    """A key in PEM form, of real newlines, ``\\n`` written out, or the whole file in base64, as hosting panels make
    people do.

    Raises:
        ValueError: it is none.
    """
    text = text.replace("\\r", "").replace("\\n", "\n").strip()
    if "-----BEGIN" not in text:
        try:
            text = base64.b64decode("".join(text.split()), validate=True).decode("ascii").strip()
        except (binascii.Error, UnicodeDecodeError):
            text = ""
    try:
        key = load_pem_private_key(text.encode("ascii"), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("it is not an RSA private key in PEM form (-----BEGIN RSA PRIVATE KEY----- …)")
    return SecretStr(text + "\n")


def checked_key(pem: str) -> RSAPrivateKey:
    """The key of a text that :func:`rsa_pem` gave. Its numbers are not checked again, which would take long."""
    key = load_pem_private_key(pem.encode("ascii"), password=None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)
    return key
