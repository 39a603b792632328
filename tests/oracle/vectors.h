/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads vectors.txt, which contains results of PyTorch. make_vectors.py documents their origin and
 * the format. */

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace oracle {

struct Tensor
{
  std::vector<int64_t> dims;
  std::vector<float> floats; // values of an f32 tensor
  std::vector<int64_t> ints; // values of an i64 tensor
};

class Vectors
{
public:
  // Reads a file in the runfiles. If that fails, it terminates the test program.
  explicit Vectors (const std::string &path = "tests/oracle/vectors.txt");

  bool
  has (const std::string &name) const
  {
    return tensors_.count (name) > 0;
  }
  // Returns a tensor. If there is no tensor of this name, it terminates the test program.
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

// Returns the contents of the default file, which is read only once.
const Vectors &vectors ();

// Returns the largest |a - b| / (1 + |b|). Returns infinity if the sizes differ or a value is not a
// number.
double worst_difference (const std::vector<float> &a, const std::vector<float> &b);

} // namespace oracle
