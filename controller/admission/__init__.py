"""The validating webhook: it checks Rootport's part of claims when they are created; see docs/design/admission.md."""
