"""The kubelet's gRPC protocols, as messages and stubs that protoc makes from the ``.proto`` files beside this one.

``dra_v1_pb2``, ``dra_v1_pb2_grpc`` and so on are made when Rootport is built or installed (setup.py) and are not kept
in the repository; after a change to a ``.proto`` file, ``make venv`` makes them anew.
"""
