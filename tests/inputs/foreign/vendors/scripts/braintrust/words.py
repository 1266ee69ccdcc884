def handler(output, expected, **kwargs):
    said, wanted = set(str(output).split()), set(str(expected).split())
    return len(said & wanted) / max(1, len(wanted))
