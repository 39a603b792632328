/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads vectors.txt, which has results of PyTorch. make_vectors.py documents their origin and the
 * format. */

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
  // Reads a file in the runfiles; ends the test program if that fails.
  explicit Vectors (const std::string &path = "tests/oracle/vectors.txt");

  bool
  has (const std::string &name) const
  {
    return tensors_.count (name) > 0;
  }
  // Ends the test program if there is no tensor of this name.
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

// The largest |a - b| / (1 + |b|); infinity if the sizes differ or a value is not a number.
double worst_difference (const std::vector<float> &a, const std::vector<float> &b);

} // namespace oracle
