"""Network interfaces of pods: the CNI server, VF settings, and interfaces moved into pods."""
