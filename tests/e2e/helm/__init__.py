"""A package, unlike other folders of tests: else a fixture of the scope "package" would not end with these tests."""
