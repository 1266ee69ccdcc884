"""The distributions of modules that have another name, for hints; and names that mean a file of the user's own."""

from __future__ import annotations

import difflib
import re
import sys

KNOWN = {
    "absl": "absl-py",
    "antlr4": "antlr4-python3-runtime",
    "attr": "attrs",
    "azure.identity": "azure-identity",
    "azure.storage": "azure-storage-blob",
    "Bio": "biopython",
    "bs4": "beautifulsoup4",
    "bson": "pymongo",
    "cattr": "cattrs",
    "comet": "unbabel-comet",
    "community": "python-louvain",
    "Crypto": "pycryptodome",
    "Cryptodome": "pycryptodomex",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "PyMuPDF",
    "gi": "PyGObject",
    "git": "GitPython",
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud": "google-cloud-core",
    "google.genai": "google-genai",
    "google.generativeai": "google-generativeai",
    "google.protobuf": "protobuf",
    "googleapiclient": "google-api-python-client",
    "grpc": "grpcio",
    "hydra": "hydra-core",
    "igraph": "igraph",
    "indicnlp": "indic-nlp-library",
    "jose": "python-jose",
    "jwt": "PyJWT",
    "Levenshtein": "Levenshtein",
    "lingua": "lingua-language-detector",
    "lxml": "lxml",
    "magic": "python-magic",
    "markdown": "Markdown",
    "MeCab": "mecab-python3",
    "mpl_toolkits": "matplotlib",
    "mysql": "mysql-connector-python",
    "MySQLdb": "mysqlclient",
    "nacl": "PyNaCl",
    "open_clip": "open-clip-torch",
    "OpenSSL": "pyOpenSSL",
    "opentelemetry": "opentelemetry-api",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "paddle": "paddlepaddle",
    "pdfminer": "pdfminer.six",
    "phoenix": "arize-phoenix",
    "phoenix.evals": "arize-phoenix-evals",
    "PIL": "Pillow",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "profanity_check": "alt-profanity-check",
    "psycopg2": "psycopg2-binary",
    "pylab": "matplotlib",
    "pymupdf": "PyMuPDF",
    "pythonjsonlogger": "python-json-logger",
    "readability": "readability-lxml",
    "rouge_score": "rouge-score",
    "ruamel": "ruamel.yaml",
    "sentence_transformers": "sentence-transformers",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "snowflake": "snowflake-connector-python",
    "speech_recognition": "SpeechRecognition",
    "umap": "umap-learn",
    "usb": "pyusb",
    "vertexai": "google-cloud-aiplatform",
    "weaviate": "weaviate-client",
    "websocket": "websocket-client",
    "whisper": "openai-whisper",
    "win32api": "pywin32",
    "Xlib": "python-xlib",
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


_OTHERS = (
    "anthropic", "autoevals", "bert-score", "bleurt", "braintrust", "codebleu", "datasets", "deepeval", "diskcache",
    "editdistance", "fasttext", "fuzzywuzzy", "gensim", "httpx", "inspect-ai", "instructor", "jellyfish",
    "jiwer", "jsonpath-ng", "jsonschema", "keras", "langchain", "langfuse", "langsmith", "latex2sympy2", "litellm",
    "matplotlib", "math-verify", "mauve-text", "mlflow", "moverscore", "networkx", "nltk", "numpy", "openai", "opik",
    "pandas", "polars", "promptfoo", "pyarrow", "pydantic", "python-Levenshtein", "ragas", "rapidfuzz", "regex",
    "requests", "rouge", "sacrebleu", "scipy", "seqeval", "seaborn", "spacy", "sqlglot", "sqlparse", "statsmodels",
    "sympy", "tabulate", "tensorflow", "textblob", "textdistance", "textstat", "thefuzz", "tiktoken", "tokenizers",
    "torch", "torchmetrics", "tqdm", "transformers", "trl", "ujson", "xgboost", "zss",
)  # fmt: skip
"""Distributions that scorers use, and whose modules have their names."""


def likely_package(name: str) -> str:
    """The distribution that is meant by a name that no index has; empty if none is likely."""
    modules = {module.lower().replace("_", "-"): found for module, found in KNOWN.items()}
    plain = re.sub(r"[-_.]+", "-", name.lower())
    if plain in modules:
        return modules[plain]
    known = {found.lower(): found for found in (*KNOWN.values(), *_OTHERS)}
    near = difflib.get_close_matches(plain, [*known, *modules], 1, 0.75)
    return (known.get(near[0]) or modules[near[0]]) if near else ""


def is_own_file(module: str) -> bool:
    """Whether a module of this name is a file of the user's own rather than a package."""
    top = module.partition(".")[0].lower()
    return top in GENERIC or _OWN.fullmatch(top) is not None
