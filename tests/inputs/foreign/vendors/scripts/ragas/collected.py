from ragas.metrics.collections import RougeScore

rouge = RougeScore(rouge_type="rouge1")
