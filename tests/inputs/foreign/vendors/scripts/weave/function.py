import weave


@weave.op
def same(output, reference) -> dict:
    return {"same": output == reference}
