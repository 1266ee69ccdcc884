from ragas.metrics import ExactMatch, NonLLMStringSimilarity, StringPresence

near = NonLLMStringSimilarity()
exact = ExactMatch()
present = StringPresence(name="there")
