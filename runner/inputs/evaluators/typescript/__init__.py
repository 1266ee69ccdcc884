"""TypeScript evaluators, read from their syntax tree."""
