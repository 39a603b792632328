// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Hand-written calls of ParameterServer.average_gradient.

#pragma once

#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "tests/plugin/server/raw_client.h"

namespace thriftps_test {

// Writes the arguments of average_gradient (trainer, batch, bucket 0), with a dense FLOAT32
// gradient of `n_elems` elements that are all `value`.
WriteFields Push (gint32 trainer, gint64 batch, gint64 n_elems, float value);

// Writes the same arguments with the given type and elements.
WriteFields PushBytes (gint32 trainer, gint64 batch, TpsDType dtype, gint64 n_elems,
                       const std::string &bytes, gint32 param_loc = 0);

// Returns the elements of Gradient.dense in a reply.
std::vector<float> Average (const Message &answer);

} // namespace thriftps_test
