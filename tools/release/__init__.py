"""What a release is made of, and how: docs/dev/releasing.md is the manual."""
