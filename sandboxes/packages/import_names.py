"""The distributions of modules that have another name, for hints."""

from __future__ import annotations

import re

KNOWN = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "PyMuPDF",
    "git": "GitPython",
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "igraph": "igraph",
    "jose": "python-jose",
    "jwt": "PyJWT",
    "Levenshtein": "Levenshtein",
    "lxml": "lxml",
    "magic": "python-magic",
    "markdown": "Markdown",
    "mpl_toolkits": "matplotlib",
    "nacl": "PyNaCl",
    "OpenSSL": "pyOpenSSL",
    "PIL": "Pillow",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "pylab": "matplotlib",
    "pymupdf": "PyMuPDF",
    "pythonjsonlogger": "python-json-logger",
    "ruamel": "ruamel.yaml",
    "rouge_score": "rouge-score",
    "sentence_transformers": "sentence-transformers",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "umap": "umap-learn",
    "usb": "pyusb",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def which_package(module: str) -> str:
    """The distribution to install for `import module`; empty if the module has no plain ASCII name."""
    top, _, rest = module.partition(".")
    found = KNOWN.get(f"{top}.{rest.partition('.')[0]}") or KNOWN.get(top)
    return found or (top if _NAME.fullmatch(top) else "")
