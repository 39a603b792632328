/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/oracle/vectors.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace oracle {

static void
give_up (const std::string &message)
{
  fprintf (stderr, "%s\n", message.c_str ());
  abort ();
}

static Tensor
parse_tensor (std::istringstream &head, const std::string &type, const std::string &values)
{
  Tensor tensor;
  int64_t dim;

  while (head >> dim)
    tensor.dims.push_back (dim);
  std::istringstream in (values);
  std::string word;
  while (in >> word)
    {
      if (type == "i64")
        tensor.ints.push_back (std::stoll (word));
      else
        tensor.floats.push_back (std::strtof (word.c_str (), nullptr));
    }
  return tensor;
}

Vectors::Vectors (const std::string &path)
{
  std::ifstream file (path);
  std::string line, values;

  if (!file)
    give_up ("cannot read " + path);
  while (std::getline (file, line))
    {
      std::istringstream head (line);
      std::string word, name, type;

      head >> word;
      if (word != "tensor")
        continue;
      head >> name >> type;
      std::getline (file, values);
      tensors_[name] = parse_tensor (head, type, values);
    }
}

const Tensor &
Vectors::get (const std::string &name) const
{
  auto found = tensors_.find (name);

  if (found == tensors_.end ())
    give_up ("no vector " + name);
  return found->second;
}

const Vectors &
vectors ()
{
  static const Vectors shared;
  return shared;
}

double
worst_difference (const std::vector<float> &a, const std::vector<float> &b)
{
  double worst = 0;

  if (a.size () != b.size ())
    return std::numeric_limits<double>::infinity ();
  for (size_t i = 0; i < a.size (); i++)
    {
      double difference = std::fabs ((double) a[i] - (double) b[i])
                          / (1 + std::fabs ((double) b[i]));

      if (!(difference <= worst))
        worst = std::isnan (difference) ? std::numeric_limits<double>::infinity () : difference;
    }
  return worst;
}

} // namespace oracle
