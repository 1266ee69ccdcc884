def words(value):
    return set(str(value).split())


def reward(prompts, completions, reference, model=None, **kwargs):
    pairs = zip(completions, reference)
    return [len(words(said) & words(wanted)) / len(words(wanted)) if words(said) else None for said, wanted in pairs]


async def later(completions, reference, **kwargs):
    return [len(str(said)) - len(str(wanted)) for said, wanted in zip(completions, reference)]
