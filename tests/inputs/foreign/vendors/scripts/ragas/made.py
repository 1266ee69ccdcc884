import os

from ragas.metrics import discrete_metric

PROCESS = os.getpid()


@discrete_metric(name="made", allowed_values=["before", "here"])
def made(response):
    return "here" if os.getpid() == PROCESS else "before"
