def words(run, example):
    said, wanted = (set(str(one.outputs).split()) for one in (run, example))
    share = len(said & wanted) / max(1, len(wanted))
    return {"key": "words", "score": share, "comment": str(example.metadata.get("model"))}
