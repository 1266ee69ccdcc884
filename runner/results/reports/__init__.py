"""Reports of runs for people and pipelines: JUnit, GitLab's code quality, Markdown and HTML."""
