from langfuse import Evaluation


async def words(*, input, output, expected_output, metadata, **kwargs):
    said, wanted = set(str(output).split()), set(str(expected_output).split())
    share = len(said & wanted) / max(1, len(wanted))
    return Evaluation(name="words", value=share, comment=str((metadata or {}).get("model")))
