/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A server on a Unix socket that offers shared memory. It sends exactly the bytes that the test
 * chooses. */

#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plugin/memory/segment.h"
#include "plugin/wire/wire_tensor.h"
#include "tests/plugin/client/client_fixture.h"

namespace tps_test {

constexpr gint64 MIB = 1 << 20;

inline int64_t
be_number (const std::string &bytes)
{
  uint64_t value = 0;

  for (unsigned char byte : bytes)
    value = value << 8 | byte;
  return static_cast<int64_t> (value);
}

/* Returns field `id`, an i64, at the top level of the struct `bytes`. */
inline int64_t
find_i64 (const std::string &bytes, int id)
{
  size_t at = bytes.find (std::string (1, 10) + be16 (id));

  return at == std::string::npos ? -1 : be_number (bytes.substr (at + 3, 8));
}

inline std::string
slice (int64_t segment, int64_t offset, int64_t length)
{
  return field (10, 1, be64 (segment)) + field (10, 2, be64 (offset)) + field (10, 3, be64 (length))
         + '\0';
}

/* Returns a FLOAT32 vector as the value of a struct. `data_or_shared` is the field with its bytes
 * or with their location. */
inline std::string
tensor (int64_t n_elems, const std::string &data_or_shared)
{
  return field (8, 1, be32 (1)) + field (15, 2, std::string (1, 10) + be32 (1) + be64 (n_elems))
         + data_or_shared + '\0';
}

/* A server with handlers for the calls that the client makes by itself. */
class ScriptedServer
{
public:
  using Serve = std::function<void (Connection &, const ReceivedCall &)>;

  explicit ScriptedServer (const std::string &path) : listener (path)
  {
    serve["Node:describe"] = [this] (Connection &connection, const ReceivedCall &call) {
      connection.send (
          reply ("describe", call.seqid,
                 field (12, 0,
                        field (11, 1, binary ("scripted")) + field (11, 2, binary ("1"))
                            + field (10, 8, be64 (max_shared_bytes)) + '\0')));
    };
    serve["Memory:open_segment"] = [this] (Connection &connection, const ReceivedCall &call) {
      open (connection, call);
    };
    serve["Memory:release_segments"] = serve["Memory:close_segments"] =
        [] (Connection &connection, const ReceivedCall &call) {
          connection.send (reply (call.name.substr (7), call.seqid, ""));
        };
  }

  ~ScriptedServer ()
  {
    for (auto &segment : segments)
      tps_segment_free (segment.second);
    EXPECT_EQ (std::string (), unexpected);
  }

  /* Returns the user's next call. Until then it serves the calls that the client makes by
   * itself. */
  ReceivedCall
  read_call (Connection &connection)
  {
    for (;;)
      {
        ReceivedCall call = connection.read_call ();

        n_calls[call.name]++;
        if (serve.count (call.name) == 0)
          return call;
        serve[call.name](connection, call);
      }
  }

  /* Serves until the client has made `n` calls of `name` in total. */
  void
  serve_until (Connection &connection, const std::string &name, int n)
  {
    while (n_calls[name] < n)
      {
        ReceivedCall call = connection.read_call ();

        n_calls[call.name]++;
        if (serve.count (call.name) == 0)
          {
            unexpected = call.name;
            return;
          }
        serve[call.name](connection, call);
      }
  }

  /* Answers open_segment with a valid segment. */
  void
  open (Connection &connection, const ReceivedCall &call)
  {
    int use = static_cast<int> (be_number (call.inside.substr (10, 4)));
    int64_t n_bytes = find_i64 (call.inside, 3);
    gint fd = -1;
    TpsSegment *segment = tps_segment_create (static_cast<TpsSegmentUse> (use),
                                              static_cast<gsize> (n_bytes), &fd, nullptr);

    segments[++last_id] = segment;
    connection.send_with_descriptors (opened (call, last_id, n_bytes), { fd });
    close (fd);
  }

  static std::string
  opened (const ReceivedCall &call, int64_t id, int64_t n_bytes)
  {
    return reply ("open_segment", call.seqid,
                  field (12, 0, field (10, 1, be64 (id)) + field (10, 2, be64 (n_bytes)) + '\0'));
  }

  Listener listener;
  std::map<std::string, Serve> serve;
  std::map<std::string, int> n_calls;
  std::map<int64_t, TpsSegment *> segments;
  int64_t last_id = 0;
  int64_t max_shared_bytes = 64 * MIB;
  std::string unexpected;
};

/* The outcome of a call that returns a tensor. */
class TensorOutcome
{
public:
  ~TensorOutcome ()
  {
    tps_tensor_clear (&tensor);
    g_clear_error (&decode_error);
  }

  static void
  done (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
  {
    TensorOutcome *self = static_cast<TensorOutcome *> (user_data);
    TpsFieldPath path = {};

    path.name = "answer";
    if (error == nullptr && type == TPS_WIRE_STRUCT)
      tps_struct_read (&tps_tensor_struct, result, &path, &self->tensor, &self->decode_error);
    Outcome::done (&self->outcome, nullptr, TPS_WIRE_STOP, error);
  }

  TpsTensor tensor = {};
  GError *decode_error = nullptr;
  Outcome outcome;
};

class SharingTest : public ClientTest
{
protected:
  explicit SharingTest () : server_ ("sharing_" + std::to_string (getpid ()) + ".sock")
  {
    connect_to (server_.listener.address ());
  }

  /* Writes field 1, a tensor. */
  static void
  write_tensor (TpsWriter *out, gconstpointer data)
  {
    const std::vector<float> *values = static_cast<const std::vector<float> *> (data);
    gint64 dim = static_cast<gint64> (values->size ());
    TpsTensorView view = {};

    tps_shape_init (&view.shape, TPS_DTYPE_FLOAT32, 1, &dim, "shape", nullptr);
    view.data = const_cast<float *> (values->data ());
    tps_writer_field (out, 1, TPS_WIRE_STRUCT);
    tps_tensor_encode_borrowed (out, view);
  }

  void
  push_tensor (TensorOutcome *outcome, const std::vector<float> *values,
               gint64 deadline_ns = later ())
  {
    tps_client_call (client_, "Calculator", "push", write_tensor, values, deadline_ns,
                     TensorOutcome::done, outcome);
  }

  /* Pushes, replies with `result` (the content of a result struct), and waits. Returns the call. */
  ReceivedCall
  push_and_answer (Connection &connection, TensorOutcome *outcome, const std::string &result = "")
  {
    push_tensor (outcome, &values_);
    ReceivedCall call = server_.read_call (connection);
    connection.send (reply ("push", call.seqid, result));
    outcome->outcome.wait ();
    EXPECT_EQ (outcome->outcome.text (), "");
    return call;
  }

  /* Returns a connection with an open segment for requests. */
  Connection
  connect_with_requests ()
  {
    TensorOutcome first;

    push_tensor (&first, &values_);
    Connection connection = server_.listener.accept ();
    answer_until_opened (connection, &first);
    return connection;
  }

  /* Serves until the client has opened a segment, and replies to its first push. The push and the
   * client's own calls arrive in any order. */
  void
  answer_until_opened (Connection &connection, TensorOutcome *first)
  {
    server_.serve["Calculator:push"] = [] (Connection &to, const ReceivedCall &call) {
      to.send (reply ("push", call.seqid, ""));
    };
    server_.serve_until (connection, "Memory:open_segment", 1);
    server_.serve_until (connection, "Calculator:push", 1);
    first->outcome.wait ();
    settle (connection);
    server_.serve.erase ("Calculator:push");
  }

  /* Makes a call. When it returns, the client has processed all earlier replies of the server. */
  void
  settle (Connection &connection)
  {
    Outcome outcome;

    call (&outcome, 1, later ());
    ReceivedCall received = server_.read_call (connection);
    connection.send (reply_i64 ("square", received.seqid, 1));
    outcome.wait ();
  }

  /* Returns a connection with an open segment for replies, of 1 MiB. */
  Connection
  connect_with_answers ()
  {
    TensorOutcome first;
    std::string large (100000, 'x');

    tps_client_call (client_, "Calculator", "pull", nullptr, nullptr, later (), TensorOutcome::done,
                     &first);
    Connection connection = server_.listener.accept ();
    ReceivedCall call = server_.read_call (connection);
    connection.send (
        reply ("pull", call.seqid, field (12, 0, tensor (25000, field (11, 3, binary (large))))));
    first.outcome.wait ();
    server_.serve_until (connection, "Memory:open_segment", 1);
    settle (connection);
    return connection;
  }

  /* Calls pull, and replies with the tensor `answer`. */
  void
  pull (Connection &connection, TensorOutcome *outcome, const std::string &answer)
  {
    tps_client_call (client_, "Calculator", "pull", nullptr, nullptr, later (), TensorOutcome::done,
                     outcome);
    ReceivedCall call = server_.read_call (connection);
    connection.send (reply ("pull", call.seqid, field (12, 0, answer)));
    outcome->outcome.wait ();
  }

  std::string
  shared_tensor (int64_t segment, int64_t offset)
  {
    return tensor (25000, field (12, 4, slice (segment, offset, 100000)));
  }

  TpsSharingStats
  stats ()
  {
    TpsSharingStats stats;

    tps_client_get_sharing_stats (client_, &stats);
    return stats;
  }

  bool
  is_inline (const ReceivedCall &call)
  {
    return call.inside.size () > values_.size () * sizeof (float);
  }

  ScriptedServer server_;
  std::vector<float> values_ = std::vector<float> (25000, 1.5f);
};

}
