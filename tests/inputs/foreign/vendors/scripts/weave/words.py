import weave


class Words(weave.Scorer):
    least: float = 0.5

    @weave.op
    async def score(self, *, output: str, target: str, metadata: dict) -> dict:
        said, wanted = set(output.split()), set(target.split())
        share = len(said & wanted) / max(1, len(wanted))
        return {"share": share, "enough": share >= self.least, "model": metadata["model"]}
