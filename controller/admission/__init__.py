"""The validating webhook: what claims say to Rootport is checked when they are made; see docs/design/admission.md."""
