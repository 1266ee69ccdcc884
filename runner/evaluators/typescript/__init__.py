"""The signature of a TypeScript evaluator, read from its syntax tree."""
