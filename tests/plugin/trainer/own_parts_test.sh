#!/bin/bash
# A program adds a part of its own to each registry of trainers.
set -euo pipefail

expected='succeeded: 8 forward passes, 8 buckets'
printed=$(tests/plugin/trainer/own_parts)
[ "$printed" = "$expected" ] || { echo "printed: $printed"; exit 1; }
