/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads vectors.txt: what PyTorch computes (make_vectors.py says how, and the format). */

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace oracle {

struct Tensor
{
  std::vector<int64_t> dims;
  std::vector<float> floats; // of an f32 tensor
  std::vector<int64_t> ints; // of an i64 tensor
};

class Vectors
{
public:
  // Of a file in the runfiles; ends the test program when it cannot be read.
  explicit Vectors (const std::string &path = "tests/oracle/vectors.txt");

  bool
  has (const std::string &name) const
  {
    return tensors_.count (name) > 0;
  }
  // Ends the test program when there is none of this name.
  const Tensor &get (const std::string &name) const;
  const std::vector<float> &
  floats (const std::string &name) const
  {
    return get (name).floats;
  }
  const std::vector<int64_t> &
  ints (const std::string &name) const
  {
    return get (name).ints;
  }

private:
  std::map<std::string, Tensor> tensors_;
};

// The file, read once.
const Vectors &vectors ();

// The largest |a - b| / (1 + |b|); infinity where the sizes differ or something is not a number.
double worst_difference (const std::vector<float> &a, const std::vector<float> &b);

} // namespace oracle
