"""
Fill a volume with packages: a tar of them comes on standard input, is unpacked beside its place, compiled, and renamed.

It is sent as text. What was interrupted earlier is removed first. No code of the packages runs.
"""

import compileall
import os
import py_compile
import shutil
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
    place = os.path.join(part, last)
    os.makedirs(place, 0o755)
    # Without a buffer, which would wait for more than there is: the input is not closed at the end of the tar.
    with open(0, "rb", buffering=0) as stdin, tarfile.open(fileobj=stdin, mode="r|", bufsize=1 << 20) as packed:
        for entry in packed:
            path = os.path.normpath(os.path.join(place, entry.name))
            if not (path + "/").startswith(place + "/") or not (entry.isfile() or entry.isdir()):
                sys.exit(f"what is no file of a package: {entry.name!r}")
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
    shutil.rmtree(part, ignore_errors=True)
    print("done", flush=True)


if __name__ == "__main__":
    os.umask(0o022)
    main(sys.argv[1], sys.argv[2:] == ["compiled"])
