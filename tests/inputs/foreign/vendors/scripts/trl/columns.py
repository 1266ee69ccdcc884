def reward(prompts, completions, metadata, reference=None, **kwargs):
    assert isinstance(metadata, list)
    rows = zip(completions, reference, metadata, strict=True)
    return [len(str(completion)) / (1 + len(str(gold))) + len(own) for completion, gold, own in rows]
