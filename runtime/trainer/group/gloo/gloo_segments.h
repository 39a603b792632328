/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An all-reduce on sends and receives between ranks. C++; internal to this folder.
 *
 * Gloo's own ring adds in an order that depends on the position in the buffer and the number of
 * ranks; ours promises rank order, as the averaging server does. It moves as many bytes as a ring:
 * segments of the data are dealt to the ranks; everybody sends its piece of a segment to the
 * segment's owner, who adds all pieces in rank order and sends the sum to everybody. Segments
 * overlap. An average of half floats is the same, and the ranks tell each other their weights
 * meanwhile.
 */

#pragma once

#include <vector>

#include "runtime/trainer/group/gloo/gloo_mesh.h"

namespace tps {

/* Memory for the others' pieces, kept between calls. */
using Scratch = std::vector<float>;

/* data [n_elems] = the sum of all ranks', in place. */
void sum_over_mesh (Mesh *mesh, Scratch *scratch, float *data, size_t n_elems);

/* As the group's average(), runtime/trainer/ports/process_group.h. */
void average_over_mesh (Mesh *mesh, Scratch *scratch, TpsAverage *average);

} /* namespace tps */
