"""Made-up nodes, pods and mixes for the properties of placement."""

from __future__ import annotations

from hypothesis import strategies as st

from driver.placement.mix import Mix
from driver.placement.shapes import NodeShape, PodShape

MODELS = ("T4", "G2", "A10")

pods = st.builds(
    PodShape,
    cpu_milli=st.integers(0, 12),
    memory=st.integers(0, 6),
    gpus=st.sampled_from((0, 1, 1, 2, 3, 8, 128)),
    gpu_milli=st.sampled_from((0, 1, 190, 470, 810, 1000, 1000, 1500)),
    models=st.sampled_from([frozenset(), frozenset(), *map(frozenset, ({"T4"}, {"G2"}, {"T4", "A10"}))]),
)
nodes = st.builds(
    NodeShape,
    cpu_milli=st.integers(0, 20),
    memory=st.integers(0, 10),
    pods=st.integers(0, 3),
    model=st.sampled_from((*MODELS, "")),
    gpus=st.lists(st.sampled_from((0, 1, 189, 190, 500, 999, 1000, 1000, 2500)), max_size=6).map(tuple)
    | st.just((1000,) * 128),
)
mixes = st.dictionaries(pods, st.integers(1, 1000), max_size=5).map(Mix)
