"""NVIDIA's management library (NVML) and the files of NVIDIA's driver."""
