"""What there is, how it is and who has it, by node: for the controller's HTTP API and its page, and for the CLI."""

__all__: list[str] = []
