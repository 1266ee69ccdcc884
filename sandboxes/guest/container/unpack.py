"""
Fill a volume with packages: a tar of them comes on standard input, is unpacked beside its place, compiled, and renamed.

It is sent as text. What was interrupted earlier is removed first. No code of the packages runs. It ends by itself after
some seconds, as an engine may keep the input open when whoever sends is gone.
"""

import compileall
import os
import py_compile
import shutil
import signal
import sys
import tarfile
import time


def main(folder: str, compiled: bool) -> None:
    base, last = os.path.split(folder)
    for name in os.listdir(base):
        part = os.path.join(base, name)
        if name.startswith(".part-") and time.time() - os.stat(part).st_mtime > 3600:
            shutil.rmtree(part, ignore_errors=True)
    part = os.path.join(base, f".part-{os.urandom(8).hex()}")
    try:
        fill(os.path.join(part, last), folder, compiled)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    print("done", flush=True)


def fill(place: str, folder: str, compiled: bool) -> None:
    """Unpack beside the folder, and rename: it is there whole or not at all."""
    os.makedirs(place, 0o755)
    # Without a buffer, which would wait for more than there is: the input is not closed at the end of the tar.
    with (
        open(0, "rb", buffering=0, closefd=False) as stdin,
        tarfile.open(fileobj=stdin, mode="r|", bufsize=1 << 20) as packed,
    ):
        for entry in packed:
            path = os.path.normpath(os.path.join(place, entry.name))
            if not (path + "/").startswith(place + "/") or not (entry.isfile() or entry.isdir()):
                raise ValueError(f"what is no file of a package: {entry.name!r}")
            if entry.isdir():
                os.makedirs(path, 0o755, exist_ok=True)
                continue
            with open(path, "wb") as file:
                content = packed.extractfile(entry)
                assert content is not None
                shutil.copyfileobj(content, file)
            os.chmod(path, 0o755 if entry.mode & 0o100 else 0o644)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for where, folders, _ in () if compiled else os.walk(place):
        folders[:] = [name for name in folders if name not in ("tests", "__pycache__")]
        compileall.compile_dir(
            where, maxlevels=0, quiet=2, workers=1, stripdir=place, prependdir="/packages", invalidation_mode=mode
        )
    try:
        os.rename(place, folder)
    except OSError:
        if not os.path.isdir(folder):  # another run may have been first, with the same packages
            raise


if __name__ == "__main__":
    os.umask(0o022)
    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(14))  # process 1 is deaf to it else
    signal.alarm(int(sys.argv[2]))
    try:
        main(sys.argv[1], sys.argv[3:] == ["compiled"])
    except (OSError, ValueError, tarfile.TarError) as error:
        print(f"{error}".replace("\n", " ") or type(error).__name__, flush=True)
        while os.read(0, 1 << 16):  # what is still sent would else break off, and this not be heard
            pass
        sys.exit(1)
