"""Replays a trace of pods as the experiment of the paper on FGD does, with any policy, and compares the results.

*Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent* (Weng and others, USENIX
ATC 2023), and the simulator behind it, github.com/hkust-adsl/kubernetes-scheduler-simulator at 8f3d641.
"""
