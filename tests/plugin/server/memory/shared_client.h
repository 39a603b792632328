// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A client that shares memory with its server, step by step as in thrift/memory.thrift. It does not
// use the client library, so it can also violate the protocol.

#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plugin/memory/segment.h"
#include "runtime/tensor/tensor.h"
#include "tests/plugin/server/raw_client.h"

namespace thriftps_test {

struct Segment
{
  gint64 id = 0;
  gsize size = 0;
  int fd = -1;
  guint8 *data = nullptr; // writable in segments for requests
  TpsSegmentUse use = TPS_SEGMENT_REQUESTS;
};

// Functions that write arguments and read results, as in plugin/wire.
using WriteArguments = void (*) (TpsWriter *out, gconstpointer data);
using ReadResult = gboolean (*) (TpsReader *in, TpsWireType type, gpointer target, GError **error);

// Returns a FLOAT32 vector whose elements are all `value`. Release it with tps_tensor_clear().
TpsTensor MakeVector (gint64 n_elems, float value);

// Write the arguments of open_segment, and of close_segments or release_segments.
WriteFields OpenFields (gint32 kind, gint32 use, gint64 n_bytes);
WriteFields IdsFields (const std::vector<gint64> &ids);

// Writes a Tensor whose elements are in a slice, optionally with inline bytes as well. It checks
// nothing.
WriteFields SharedTensor (gint32 dtype, const std::vector<gint64> &shape, TpsSharedSlice slice,
                          const std::string *data = nullptr);

class SharedClient
{
public:
  explicit SharedClient (const std::string &address, Wire wire = Wire ());
  ~SharedClient ();
  SharedClient (const SharedClient &) = delete;
  SharedClient &operator= (const SharedClient &) = delete;

  RawClient &
  raw ()
  {
    return raw_;
  }

  // Returns the number of bytes that Node.describe offers; 0 = no sharing.
  gint64 Offered ();

  // Opens a segment, or aborts if the server refuses.
  const Segment &Open (TpsSegmentUse use, gsize n_bytes);
  // Release or close a segment of the server. Return its reply.
  Message Release (gint64 id);
  Message Close (gint64 id);

  // Sends a call. If `segment` is not null, large tensors are placed in it.
  void Send (const std::string &name, WriteArguments write, gconstpointer data,
             const Segment *segment, int seqid = 0);

  // Reads the value of the reply into `target`, with slices from the segments for replies. Returns
  // true if there is a value. Otherwise LastError() returns the reason.
  bool Receive (ReadResult read, gpointer target);
  const std::string &
  LastError () const
  {
    return last_error_;
  }

  // Releases the segments that slices of replies have used since the last call of this function.
  void ReleaseUsed ();

  int n_placed = 0;   // tensors put into segments
  int n_resolved = 0; // tensors found in segments

private:
  struct Placer;
  struct Resolver;

  RawClient raw_;
  std::map<gint64, Segment> segments_;
  std::unique_ptr<Resolver> resolver_;
  std::string last_error_;
};

} // namespace thriftps_test
