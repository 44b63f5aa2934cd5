"""The command line: ``rootport``. Each command lives in its own module, imported only when it runs."""
