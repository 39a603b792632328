"""Reads a folder like torch.distributed.checkpoint (HuggingFaceStorageReader), in plain Python, and
with that reader too if PyTorch and safetensors are installed, or if READERS is in the environment.

    read_checkpoint.py FOLDER NAME EXPECTED [hash]

EXPECTED: all rows of table NAME as FLOAT32, in the order of their ids. Every file that ends in
.safetensors counts, every tensor of a file has saved_offsets, and the parts of a tensor cover it
without gaps and overlaps. hash: rows are in the order of the shards, with ids in NAME.row_ids.
"""

import array
import json
import os
import struct
import sys

ELEMENT_BYTES = {"F32": 4, "I64": 8}


def read_file(path):
    with open(path, "rb") as file:
        (n_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(n_bytes))
        data = file.read()
    metadata = header.pop("__metadata__")
    assert all(isinstance(value, str) for value in metadata.values()), metadata
    assert metadata["format"] == "pt" and metadata["DCP_VERSION"] == "1.0", metadata
    return header, json.loads(metadata["DCP_SHARDING_INFO"]), data


def read_parts(folder):
    """Name of a tensor -> its parts: (first row, shape, dtype, bytes)."""
    parts = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        header, sharding, data = read_file(os.path.join(folder, name))
        for key, tensor in header.items():
            offsets = sharding[key]["saved_offsets"]
            begin, end = tensor["data_offsets"]
            assert len(offsets) == len(tensor["shape"]) and not any(offsets[1:]), (key, offsets)
            part = (offsets[0], tensor["shape"], tensor["dtype"], data[begin:end])
            parts.setdefault(key, []).append(part)
    return parts


def join(key, parts):
    joined = b""
    n_rows = 0
    for first_row, shape, dtype, data in sorted(parts):
        assert first_row == n_rows, (key, first_row, n_rows)
        n_rows += shape[0]
        n_bytes = ELEMENT_BYTES[dtype]
        for dim in shape:
            n_bytes *= dim
        assert len(data) == n_bytes, (key, len(data), n_bytes)
        joined += data
    return joined


def compare_with_torch(folder, all_parts, tensors):
    try:
        import safetensors  # pylint: disable=unused-import # the reader needs it
        import torch
        from torch.distributed.checkpoint import HuggingFaceStorageReader, load
    except ImportError:
        if "READERS" in os.environ:
            raise
        return
    types = {"F32": torch.float32, "I64": torch.int64}
    state = {}
    for key, parts in all_parts.items():
        _, shape, dtype, _ = parts[0]
        n_rows = sum(part[1][0] for part in parts)
        state[key] = torch.full([n_rows] + shape[1:], 7, dtype=types[dtype])
    load(state, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
    for key, value in state.items():
        assert bytes(value.view(torch.uint8).flatten().tolist()) == tensors[key], key
    print("read with torch.distributed.checkpoint too: %d tensors" % len(state))


def main():
    folder, name, expected_path = sys.argv[1:4]
    all_parts = read_parts(folder)
    tensors = {key: join(key, parts) for key, parts in all_parts.items()}
    compare_with_torch(folder, all_parts, tensors)
    with open(expected_path, "rb") as file:
        expected = file.read()
    weight = tensors[name + ".weight"]
    if sys.argv[4:] == ["hash"]:
        ids = array.array("q", tensors[name + ".row_ids"])
        n_row_bytes = len(weight) // len(ids)
        assert sorted(ids) == list(range(len(ids)))
        rows = {row: weight[i * n_row_bytes:(i + 1) * n_row_bytes] for i, row in enumerate(ids)}
        weight = b"".join(rows[row] for row in range(len(ids)))
    else:
        assert name + ".row_ids" not in tensors
    assert weight == expected, "rows"


if __name__ == "__main__":
    main()
