"""Reads the file of a snapshot's table without code of this tree: with NumPy alone, and with
safetensors if it is installed.

    read_snapshot.py FILE NAME EXPECTED     EXPECTED: the rows as FLOAT32, as they are in memory

Exits with 77 if NumPy is missing. READERS in the environment: safetensors must be there.
"""

import json
import os
import struct
import sys

try:
    import numpy
except ImportError:
    sys.exit(77)


def load(path):
    """A minimal reader of the format."""
    with open(path, "rb") as file:
        n_bytes = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(n_bytes))
        data = file.read()
    metadata = header.pop("__metadata__")
    types = {"F32": "<f4", "I64": "<i8"}
    tensors = {}
    end = 0
    for name, tensor in header.items():
        begin, next_end = tensor["data_offsets"]
        assert begin == end, "a hole before " + name
        end = next_end
        tensors[name] = numpy.frombuffer(data[begin:end],
                                         types[tensor["dtype"]]).reshape(tensor["shape"])
    assert end == len(data)
    assert (8 + n_bytes) % 4096 == 0
    return tensors, metadata


def main():
    path, name, expected = sys.argv[1:]
    tensors, metadata = load(path)
    weight = tensors[name + ".weight"]
    rows = numpy.fromfile(expected, "<f4").reshape(-1, weight.shape[1])
    offsets = json.loads(metadata["DCP_SHARDING_INFO"])
    ids = tensors[name + ".row_ids"]
    in_order = numpy.zeros_like(weight)
    in_order[ids] = weight

    assert numpy.array_equal(in_order, rows), "rows"
    assert sorted(tensors) == [name + end for end in (".lsn", ".row_ids", ".state.exp_avg",
                                                      ".state.exp_avg_sq",
                                                      ".weight")], sorted(tensors)
    assert set(offsets) == set(tensors)
    assert offsets[name + ".weight"]["saved_offsets"] == [0, 0]
    assert set(json.loads(metadata["crc32c"])) == set(tensors)
    assert json.loads(metadata["thriftps_table"])["name"] == name
    try:
        from safetensors.numpy import load_file
    except ImportError:
        if "READERS" in os.environ:
            raise
        print("safetensors is not installed: read with NumPy alone")
        return
    same = load_file(path)
    assert set(same) == set(tensors)
    for key, tensor in tensors.items():
        assert numpy.array_equal(same[key], tensor), key
    print("read with safetensors too")


if __name__ == "__main__":
    main()
