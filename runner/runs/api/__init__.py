"""What `import evalcell` offers for whole runs: score, compare, check, one evaluator or several."""
