// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A client that shares memory with its server, step by step as thrift/memory.thrift says, with
// nothing of the client library: it may also do what no good client does.

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
  guint8 *data = nullptr; // mapped for writing where it is for requests
  TpsSegmentUse use = TPS_SEGMENT_REQUESTS;
};

// Arguments and results as plugin/wire writes and reads them.
using WriteArguments = void (*) (TpsWriter *out, gconstpointer data);
using ReadResult = gboolean (*) (TpsReader *in, TpsWireType type, gpointer target, GError **error);

// FLOAT32 [n_elems], each `value`; tps_tensor_clear().
TpsTensor MakeVector (gint64 n_elems, float value);

WriteFields OpenFields (gint32 kind, gint32 use, gint64 n_bytes);
WriteFields IdsFields (const std::vector<gint64> &ids);

// A Tensor whose elements are a slice, with or without bytes besides, whatever they are.
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

  // What Node.describe offers; 0 = nothing.
  gint64 Offered ();

  // Dies where the server refuses.
  const Segment &Open (TpsSegmentUse use, gsize n_bytes);
  Message Release (gint64 id);
  Message Close (gint64 id);

  // Sends a call; its large tensors are put into `segment` where one is given.
  void Send (const std::string &name, WriteArguments write, gconstpointer data,
             const Segment *segment, int seqid = 0);

  // Reads the answer's value into `target`, slices from the segments for answers. Whether there was
  // one; the reason otherwise in LastError().
  bool Receive (ReadResult read, gpointer target);
  const std::string &
  LastError () const
  {
    return last_error_;
  }

  // Gives back the segments that slices of answers were in since the last time.
  void ReleaseUsed ();

  int n_placed = 0;   // tensors put into segments
  int n_resolved = 0; // tensors found in them

private:
  struct Placer;
  struct Resolver;

  RawClient raw_;
  std::map<gint64, Segment> segments_;
  std::unique_ptr<Resolver> resolver_;
  std::string last_error_;
};

} // namespace thriftps_test
