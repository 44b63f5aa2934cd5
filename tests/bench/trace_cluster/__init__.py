"""A trace's sequence of pods on a real control plane whose nodes exist in the API only."""
