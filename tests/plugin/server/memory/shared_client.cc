// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/plugin/server/memory/shared_client.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "plugin/wire/wire_memory.h"
#include "plugin/wire/wire_node.h"
#include "runtime/base/error.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps_test {
namespace {

void
Ignore (TpsSharing *)
{
}

void
WriteSlice (TpsWriter *out, TpsSharedSlice slice)
{
  tps_writer_struct_begin (out);
  put_i64 (out, 1, slice.segment);
  put_i64 (out, 2, slice.offset);
  put_i64 (out, 3, slice.length);
  tps_writer_struct_end (out);
}

} // namespace

TpsTensor
MakeVector (gint64 n_elems, float value)
{
  TpsTensor tensor = {};

  tps_tensor_init_1d (&tensor, TPS_DTYPE_FLOAT32, n_elems);
  for (gint64 i = 0; i < n_elems; i++)
    static_cast<float *> (tps_tensor_data (&tensor))[i] = value;
  return tensor;
}

WriteFields
OpenFields (gint32 kind, gint32 use, gint64 n_bytes)
{
  return [=] (TpsWriter *out) {
    put_i32 (out, 1, kind);
    put_i32 (out, 2, use);
    put_i64 (out, 3, n_bytes);
  };
}

WriteFields
IdsFields (const std::vector<gint64> &ids)
{
  return [=] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_LIST);
    tps_writer_list_begin (out, TPS_WIRE_I64, static_cast<guint32> (ids.size ()));
    for (gint64 id : ids)
      tps_writer_i64 (out, id);
  };
}

WriteFields
SharedTensor (gint32 dtype, const std::vector<gint64> &shape, TpsSharedSlice slice,
              const std::string *data)
{
  return [=] (TpsWriter *out) {
    tps_writer_struct_begin (out);
    put_i32 (out, 1, dtype);
    tps_writer_field (out, 2, TPS_WIRE_LIST);
    tps_writer_list_begin (out, TPS_WIRE_I64, static_cast<guint32> (shape.size ()));
    for (gint64 dim : shape)
      tps_writer_i64 (out, dim);
    if (data != nullptr)
      {
        tps_writer_field (out, 3, TPS_WIRE_BINARY);
        tps_writer_binary (out, data->data (), data->size ());
      }
    tps_writer_field (out, 4, TPS_WIRE_STRUCT);
    WriteSlice (out, slice);
    tps_writer_struct_end (out);
  };
}

// Places tensors one after another in a segment for requests.
struct SharedClient::Placer
{
  TpsSharing sharing; // must be the first member
  SharedClient *client;
  const Segment *segment;
  gsize used;

  static gboolean
  Place (TpsSharing *sharing, gconstpointer data, gsize n_bytes, TpsSharedSlice *slice)
  {
    Placer *placer = reinterpret_cast<Placer *> (sharing);
    gsize offset = (placer->used + 63) / 64 * 64;

    if (offset + n_bytes > placer->segment->size)
      return FALSE;
    memcpy (placer->segment->data + offset, data, n_bytes);
    placer->used = offset + n_bytes;
    placer->client->n_placed++;
    *slice = { placer->segment->id, static_cast<gint64> (offset), static_cast<gint64> (n_bytes) };
    return TRUE;
  }
};

// Finds the tensors of replies in the segments for replies.
struct SharedClient::Resolver
{
  TpsSharing sharing; // must be the first member
  SharedClient *client;
  std::set<gint64> used;

  static TpsBuffer *
  Resolve (TpsSharing *sharing, const TpsSharedSlice *slice, GError **error)
  {
    Resolver *resolver = reinterpret_cast<Resolver *> (sharing);
    auto found = resolver->client->segments_.find (slice->segment);

    if (found == resolver->client->segments_.end () || found->second.use != TPS_SEGMENT_ANSWERS
        || slice->offset % 64 != 0
        || static_cast<gsize> (slice->offset + slice->length) > found->second.size)
      {
        g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "no such slice");
        return nullptr;
      }
    resolver->used.insert (slice->segment);
    resolver->client->n_resolved++;
    return tps_buffer_new_shared (found->second.data + slice->offset,
                                  static_cast<gsize> (slice->length), nullptr, nullptr);
  }
};

SharedClient::SharedClient (const std::string &address, Wire wire)
    : raw_ (address, wire), resolver_ (std::make_unique<Resolver> ())
{
  static const TpsSharingOps ops = { nullptr, Resolver::Resolve, Ignore, Ignore };

  resolver_->sharing.ops = &ops;
  resolver_->client = this;
}

SharedClient::~SharedClient ()
{
  for (auto &[id, segment] : segments_)
    {
      munmap (segment.data, segment.size);
      close (segment.fd);
    }
}

gint64
SharedClient::Offered ()
{
  g_auto (TpsNodeInfo) info = {};

  raw_.Send ("Node:describe", 0);
  if (!Receive (ReadResultOf<tps_describe_rpc>, &info))
    throw std::runtime_error (last_error_);
  return info.max_shared_bytes;
}

const Segment &
SharedClient::Open (TpsSegmentUse use, gsize n_bytes)
{
  int protection = use == TPS_SEGMENT_REQUESTS ? PROT_READ | PROT_WRITE : PROT_READ;
  TpsSegmentInfo info = {};
  Segment segment;

  raw_.Send ("Memory:open_segment", 0, OpenFields (1, use, static_cast<gint64> (n_bytes)));
  if (!Receive (ReadResultOf<tps_open_segment_rpc>, &info))
    throw std::runtime_error (last_error_);
  segment.id = info.id;
  segment.size = static_cast<gsize> (info.n_bytes);
  segment.use = use;
  segment.fd = raw_.TakeDescriptor ();
  void *data = mmap (nullptr, segment.size, protection, MAP_SHARED, segment.fd, 0);
  if (data == MAP_FAILED)
    throw std::runtime_error ("the segment cannot be mapped");
  segment.data = static_cast<guint8 *> (data);
  return segments_[info.id] = segment;
}

Message
SharedClient::Release (gint64 id)
{
  return raw_.Call ("Memory:release_segments", IdsFields ({ id }));
}

Message
SharedClient::Close (gint64 id)
{
  return raw_.Call ("Memory:close_segments", IdsFields ({ id }));
}

void
SharedClient::Send (const std::string &name, WriteArguments write, gconstpointer data,
                    const Segment *segment, int seqid)
{
  static const TpsSharingOps ops = { Placer::Place, nullptr, Ignore, Ignore };
  Placer placer = { { &ops }, this, segment, 0 };

  raw_.Send (name, seqid, [&] (TpsWriter *out) {
    tps_writer_set_sharing (out, segment != nullptr ? &placer.sharing : nullptr);
    write (out, data);
  });
}

bool
SharedClient::Receive (ReadResult read, gpointer target)
{
  Message answer = raw_.Receive ();
  g_autoptr (GError) error = nullptr;
  TpsWireType type = TPS_WIRE_STOP;
  TpsReader in;
  gint16 id;

  if (ErrorCode (answer) != 0)
    {
      last_error_ = ErrorText (answer);
      return false;
    }
  answer->sharing = &resolver_->sharing;
  tps_reader_init (&in, answer.get ());
  tps_reader_struct_begin (&in);
  tps_reader_field (&in, &id, &type);
  if (read (&in, type, target, &error))
    return true;
  last_error_ = error->message;
  return false;
}

void
SharedClient::ReleaseUsed ()
{
  std::vector<gint64> ids (resolver_->used.begin (), resolver_->used.end ());

  resolver_->used.clear ();
  if (!ids.empty () && ErrorCode (raw_.Call ("Memory:release_segments", IdsFields (ids))) != 0)
    throw std::runtime_error ("a segment could not be released");
}

} // namespace thriftps_test
