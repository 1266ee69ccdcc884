"""The distributions of modules that have another name, for hints; and names that mean a file of the user's own."""

from __future__ import annotations

import re
import sys

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

GENERIC = frozenset({
    "app", "apps", "base", "common", "commons", "config", "configs", "configuration", "const", "constants", "core",
    "custom", "data", "eval_utils", "func", "funcs", "functions", "general", "grader", "graders", "helper",
    "helper_functions", "helpers", "lib", "libs", "local", "logger", "main", "metric", "metrics", "misc", "models",
    "module", "modules", "my_module", "myhelper", "myhelpers", "mylib", "mymodule", "myutils", "package", "params",
    "project", "prompt", "prompts", "pyproject", "requirements", "requirements_txt", "run", "score", "scorer",
    "scorers", "scoring", "script", "scripts", "settings", "setup", "shared", "src", "support", "test_utils", "tests",
    "text_utils", "tool", "tools", "util", "utilities", "utility", "utils", "validation",
})  # fmt: skip
"""Names, as modules have them, that registries have too: a script that imports one means a file of its author's."""

_OWN = re.compile(r"(my|our)_\w+|\w+_(util|utils|helper|helpers)|(util|utils|helper|helpers)_\w+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def which_package(module: str) -> str:
    """The distribution to install for `import module`; empty if there is none that is sure to be meant."""
    top, _, rest = module.partition(".")
    if is_own_file(top) or top in sys.stdlib_module_names:
        return ""
    found = KNOWN.get(f"{top}.{rest.partition('.')[0]}") or KNOWN.get(top)
    return found or (top if _NAME.fullmatch(top) else "")


def is_own_file(module: str) -> bool:
    """Whether a module of this name is a file of the user's own rather than a package."""
    top = module.partition(".")[0].lower()
    return top in GENERIC or _OWN.fullmatch(top) is not None
