"""The command line: options in, one request to the library, tables and exit codes out."""
