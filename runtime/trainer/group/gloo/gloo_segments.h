/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An all-reduce built from sends and receives between ranks. C++; internal to this folder.
 *
 * Gloo's own ring adds in an order that depends on the position in the buffer and on the number of
 * ranks. This all-reduce guarantees rank order, as the averaging server does, and moves as many
 * bytes as a ring. The segments of the data are distributed over the ranks. Every rank sends its
 * piece of a segment to the segment's owner, which adds all pieces in rank order and sends the sum
 * to every rank. Transfers and sums of different segments overlap in time. An average uses the same
 * method; the ranks exchange their weights meanwhile.
 */

#pragma once

#include <vector>

#include "runtime/trainer/group/gloo/gloo_mesh.h"

namespace tps {

/* Memory for the other ranks' pieces, kept between calls. */
using Scratch = std::vector<float>;

/* data [n_elems] = the sum over all ranks, in place. */
void sum_over_mesh (Mesh *mesh, Scratch *scratch, float *data, size_t n_elems);

/* As TpsProcessGroupOps.average(), but blocks. */
void average_over_mesh (Mesh *mesh, Scratch *scratch, TpsAverage *average);

} /* namespace tps */
