"""
Errors of the caller. Each message is one line that names the file, row or option, and the next step.

    ValueError
      InputError          exit 2
        EvaluatorError    the script, its header or its signature
        DatasetError      the file as a whole; a broken row is a `failed` result instead
        ExamplesError     worked examples that cannot be used: the file, or a line of it
        MappingError      a name, path or literal that cannot be bound
        OutputError       a results file that cannot be written
      PathError           a JSONPath; callers see it as one of those above
"""


class InputError(ValueError):
    """An argument, option or file cannot be used."""


class EvaluatorError(InputError):
    """The script is not an evaluator."""


class DatasetError(InputError):
    """The dataset cannot be read."""


class ExamplesError(InputError):
    """Worked examples cannot be used."""


class MappingError(InputError):
    """The evaluator's parameters cannot be bound."""


class OutputError(InputError):
    """Results cannot be written where they should go."""


class PathError(ValueError):
    """The text is not a valid path, or a row is too large for it."""
