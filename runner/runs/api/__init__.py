"""What `import runner` offers for whole runs: score, compare, check, one evaluator or several."""
