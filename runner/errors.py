"""
What the caller got wrong. Each message is one line that names the file, row or option and the next step.

    ValueError
      InputError          exit 2
        EvaluatorError    the script, its header or its signature
        DatasetError      the file as a whole; a broken row is a `failed` result instead
        ExamplesError        worked examples that cannot be tried: the file, or a line of it
        MappingError      a name, path or literal that cannot be bound
        OutputError       a results file that cannot be written
      PathError           a JSONPath; told to the caller as one of those above
"""


class InputError(ValueError):
    """Something that the caller gave cannot be used."""


class EvaluatorError(InputError):
    """The script is no evaluator."""


class DatasetError(InputError):
    """The dataset cannot be read."""


class ExamplesError(InputError):
    """Worked examples cannot be tried."""


class MappingError(InputError):
    """The evaluator's parameters cannot be bound."""


class OutputError(InputError):
    """Results cannot be written where they should go."""


class PathError(ValueError):
    """The text is no path that can be used, or a row is too large for it."""
