/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Both sides of one connection's shared memory in one process: the client's pool and the server's
 * registry. The test controls the messages between them. */

#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "plugin/memory/segment_pool.h"
#include "plugin/memory/segment_registry.h"
#include "plugin/wire/wire_tensor.h"
#include "runtime/base/error.h"
#include "tests/plugin/frame/wire_bytes.h"

namespace thriftps {

/* Returns the number of mappings of segments in this process. */
inline int
count_mappings ()
{
  std::ifstream maps ("/proc/self/maps");
  std::string line;
  int n_mappings = 0;

  while (std::getline (maps, line))
    n_mappings += line.find ("thriftps-segment") != std::string::npos;
  return n_mappings;
}

/* Returns a FLOAT32 view of shape [n_elems], which borrows the values. */
inline TpsTensorView
view_of (const float *values, gsize n_elems)
{
  gint64 dim = static_cast<gint64> (n_elems);
  TpsTensorView view = {};

  EXPECT_TRUE (tps_shape_init (&view.shape, TPS_DTYPE_FLOAT32, 1, &dim, "shape", nullptr));
  view.data = const_cast<float *> (values);
  return view;
}

/* Returns a message whose fields 1, 2, … are of the type Tensor. Large tensors are placed in
 * `sharing`. */
inline TpsMessage *
make_message (TpsSharing *sharing, const std::vector<TpsTensorView> &tensors)
{
  TpsWriter *out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
  gint16 id = 0;

  tps_writer_set_sharing (out, sharing);
  tps_writer_message_begin (out, "method", TPS_MESSAGE_REPLY, 1);
  tps_writer_struct_begin (out);
  for (const TpsTensorView &view : tensors)
    {
      tps_writer_field (out, ++id, TPS_WIRE_STRUCT);
      tps_tensor_encode_borrowed (out, view);
    }
  tps_writer_struct_end (out);
  EXPECT_TRUE (tps_writer_message_end (out, nullptr));
  Scan scan = scan_bytes (join_pieces (out));
  tps_writer_free (out);
  EXPECT_EQ (scan.messages.size (), 1u) << scan.error;
  TpsMessage *message = scan.messages[0];
  scan.messages.clear ();
  return message;
}

inline TpsMessage *
make_message (TpsSharing *sharing, const std::vector<std::vector<float>> &tensors)
{
  std::vector<TpsTensorView> views;

  for (const std::vector<float> &values : tensors)
    views.push_back (view_of (values.data (), values.size ()));
  return make_message (sharing, views);
}

/* Decodes the tensors. Tensors in shared memory become views. If a tensor is refused, it sets
 * `error` and returns none. */
inline std::vector<TpsTensor>
read_message (TpsMessage *message, GError **error = nullptr)
{
  std::vector<TpsTensor> tensors;
  TpsReader in;
  TpsWireType type;
  gint16 id;

  tps_reader_init (&in, message);
  tps_reader_struct_begin (&in);
  while (tps_reader_field (&in, &id, &type))
    {
      TpsFieldPath path = {};
      TpsTensor tensor = {};

      path.name = "tensor";
      if (!tps_struct_read (&tps_tensor_struct, &in, &path, &tensor, error))
        {
          for (TpsTensor &read : tensors)
            tps_tensor_clear (&read);
          return {};
        }
      tensors.push_back (tensor);
    }
  return tensors;
}

class PoolPair
{
public:
  /* `device` is the device of the server's segments of kind CUDA_IPC; NULL = there are no such
   * segments. `lookup_device` is the pool's option. */
  PoolPair (gsize client_max_bytes, gsize server_max_bytes, TpsDevice *device = nullptr,
            TpsDevice *lookup_device = nullptr, gboolean has_common_answers = FALSE)
  {
    TpsSegmentPoolOptions options = { client_max_bytes, lookup_device, has_common_answers, wake,
                                      this };
    TpsSegmentLimits limits = { server_max_bytes, 0, nullptr, nullptr, device, nullptr };

    pool = tps_segment_pool_new (&options);
    registry = tps_segment_registry_new (&limits);
  }

  ~PoolPair ()
  {
    tps_segment_pool_shut_down (pool);
    tps_segment_registry_shut_down (registry);
    tps_segment_pool_unref (pool);
    tps_segment_registry_unref (registry);
  }

  /* Moves the pool's new requests to the queue of the server. */
  void
  ask ()
  {
    TpsSegmentRequest request = {};

    while (tps_segment_pool_next (pool, &request))
      asked.push_back (request);
    is_awake = false;
  }

  /* Processes the oldest request on the server, and passes the reply to the pool. */
  void
  answer ()
  {
    TpsSegmentRequest request = asked.front ();

    asked.pop_front ();
    if (request.ask == TPS_SEGMENT_ASK_OFFER)
      tps_segment_pool_offered (pool, tps_segment_registry_get_max_bytes (registry),
                                tps_segment_registry_get_device (registry) != nullptr,
                                tps_segment_registry_get_device (registry) != nullptr);
    else if (request.ask == TPS_SEGMENT_ASK_OPEN)
      open (request);
    else if (request.ask == TPS_SEGMENT_ASK_RELEASE)
      {
        EXPECT_TRUE (
            tps_segment_registry_release (registry, ids (request), request.ids->len, nullptr));
        tps_segment_pool_released (pool);
      }
    else
      {
        EXPECT_TRUE (
            tps_segment_registry_close (registry, ids (request), request.ids->len, nullptr));
        for (guint i = 0; i < request.ids->len; i++)
          sizes_.erase (ids (request)[i]);
        tps_segment_pool_closed (pool);
      }
    tps_segment_request_clear (&request);
  }

  void
  settle ()
  {
    for (ask (); !asked.empty (); ask ())
      answer ();
  }

  /* Returns the size of all segments that have been opened and not closed. */
  gsize
  n_bytes () const
  {
    gsize n_bytes = 0;

    for (auto &[id, size] : sizes_)
      n_bytes += size;
    return n_bytes;
  }

  TpsSegmentPool *pool;
  TpsSegmentRegistry *registry;
  std::deque<TpsSegmentRequest> asked;
  std::vector<TpsSegmentRequest> opened; /* all requests to open a segment */
  bool is_awake = false;
  bool knows_no_common_answers = false; /* like an older server */

private:
  static void
  wake (gpointer user_data)
  {
    static_cast<PoolPair *> (user_data)->is_awake = true;
  }

  static const gint64 *
  ids (const TpsSegmentRequest &request)
  {
    return reinterpret_cast<const gint64 *> (request.ids->data);
  }

  void
  open_exported (const TpsSegmentRequest &request)
  {
    g_autoptr (GError) error = nullptr;
    guint8 handle[TPS_EXPORT_HANDLE_BYTES];
    gint64 id;
    gsize size;

    if (request.for_lookups ? tps_segment_registry_open_for_lookups (registry, request.n_bytes, &id,
                                                                     &size, handle, &error)
                            : tps_segment_registry_open_exported (
                                registry, request.use, request.n_bytes, &id, &size, handle, &error))
      {
        sizes_[id] = size;
        tps_segment_pool_opened (pool, id, static_cast<gint64> (size), handle, nullptr);
      }
    else
      tps_segment_pool_open_failed (pool, error->code == TPS_ERROR_RESOURCE_EXHAUSTED);
  }

  void
  open (const TpsSegmentRequest &request)
  {
    g_autoptr (GError) error = nullptr;
    gint64 id;
    gsize size;
    gint fd;

    opened.push_back (request);
    if (knows_no_common_answers && request.use == TPS_SEGMENT_COMMON_ANSWERS)
      {
        EXPECT_TRUE (tps_segment_pool_open_failed (pool, FALSE));
        return;
      }
    if (request.kind == TPS_SEGMENT_CUDA_IPC)
      {
        open_exported (request);
        return;
      }
    if (!tps_segment_registry_open (registry, request.use, request.n_bytes, &id, &size, &fd,
                                    nullptr, &error))
      {
        tps_segment_pool_open_failed (pool, error->code == TPS_ERROR_RESOURCE_EXHAUSTED);
        return;
      }
    sizes_[id] = size;
    EXPECT_TRUE (tps_segment_pool_add_descriptor (pool, fd));
    EXPECT_TRUE (tps_segment_pool_opened (pool, id, static_cast<gint64> (size), nullptr, nullptr));
  }

  std::map<gint64, gsize> sizes_; /* open segments, by id */
};

}
