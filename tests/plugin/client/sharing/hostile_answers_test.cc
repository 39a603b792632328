/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests servers whose replies name invalid slices, and servers that change a reply while the client
 * reads it. The client must get an error or some values, must not touch other memory, and must
 * continue. */

#include "plugin/wire/wire_parameter_server.h"
#include "tests/plugin/client/sharing/scripted_server.h"
#include "tests/plugin/server/memory/scribbler.h"

namespace tps_test {
namespace {

constexpr gint64 ID = 1; /* of the segment for replies */

using thriftps_test::Scribbler;

std::string
list (const std::vector<int64_t> &values)
{
  std::string bytes = std::string (1, 10) + be32 (static_cast<int64_t> (values.size ()));

  for (int64_t value : values)
    bytes += be64 (value);
  return bytes;
}

/* Returns a Tensor whose elements are in the slice `where`. */
std::string
shared (int dtype, const std::vector<int64_t> &dims, const std::string &where)
{
  return field (8, 1, be32 (dtype)) + field (15, 2, list (dims)) + field (12, 4, where) + '\0';
}

class HostileAnswers : public SharingTest
{
protected:
  HostileAnswers () : connection_ (connect_with_answers ())
  {
  }

  Scribbler
  scribble ()
  {
    return Scribbler (server_.segments[ID]->data, MIB);
  }

  /* Serves the client's release of the segment, because no other reply may use the segment
   * before. */
  void
  wait_for_release ()
  {
    server_.serve_until (connection_, "Memory:release_segments", ++n_released_);
  }

  /* Checks that the client still decodes a valid reply and reads it from the segment. */
  void
  expect_it_goes_on ()
  {
    TensorOutcome outcome;

    pull (connection_, &outcome, shared_tensor (ID, 64));
    ASSERT_EQ (outcome.decode_error, nullptr) << outcome.decode_error->message;
    EXPECT_TRUE (tps_buffer_is_shared (outcome.tensor.buffer));
    tps_tensor_clear (&outcome.tensor);
    wait_for_release ();
  }

  /* If `is_lent` is true, the slice names the open segment, and the client then releases it. */
  void
  expect_refused (const std::string &answer, const std::string &what, bool is_lent = true)
  {
    TensorOutcome outcome;

    pull (connection_, &outcome, answer);
    EXPECT_EQ (outcome.outcome.text (), "") << what;
    ASSERT_NE (outcome.decode_error, nullptr) << what;
    EXPECT_EQ (outcome.decode_error->code, TPS_ERROR_INVALID_ARGUMENT) << what;
    EXPECT_EQ (outcome.tensor.buffer, nullptr) << what;
    if (is_lent)
      wait_for_release ();
    expect_it_goes_on ();
  }

  Connection connection_;
  int n_released_ = 0;
};

TEST_F (HostileAnswers, OutsideOfTheirSegmentAreRefused)
{
  for (int64_t offset : { MIB, MIB - 64, MIB - 99968, gint64 { 64 } << 40, gint64 { -64 },
                          G_MININT64, G_MAXINT64 - 63 })
    expect_refused (shared_tensor (ID, offset), std::to_string (offset));
  expect_refused (shared (1, { MIB / 4 + 1 }, slice (ID, 0, MIB + 4)), "longer than the segment");
  expect_refused (shared (1, { MIB / 4 }, slice (ID, 64, MIB)), "beyond the end");
  expect_refused (shared (1, { 0 }, slice (ID, MIB + 64, 0)), "nothing, beyond the end");
  expect_refused (shared_tensor (ID, 4), "not aligned");
}

TEST_F (HostileAnswers, OfNoSegmentForAnswersAreRefused)
{
  for (int64_t id : { gint64 { 0 }, gint64 { 2 }, gint64 { 77 }, gint64 { -1 }, G_MAXINT64 })
    expect_refused (shared_tensor (id, 0), std::to_string (id), false);
}

TEST_F (HostileAnswers, ThatDoNotFitTheirShapeAreRefused)
{
  const std::string all = slice (ID, 0, 100000);

  expect_refused (shared (1, { 24999 }, all), "longer than the tensor");
  expect_refused (shared (1, { 25001 }, all), "shorter than the tensor");
  expect_refused (shared (2, { 25000 }, all), "elements of 8 bytes");
  expect_refused (shared (3, { 25000 }, all), "elements of 2 bytes");
  expect_refused (shared (0, { 25000 }, all), "no dtype");
  expect_refused (shared (99, { 25000 }, all), "no dtype");
  expect_refused (shared (1, { -1 }, slice (ID, 0, -4)), "less than none");
  expect_refused (shared (1, { -25000, -1 }, all), "a product of negative ones");
  expect_refused (shared (1, { gint64 { 1 } << 62, 4, 25000 }, all), "too many elements");
  expect_refused (
      tensor (25000, field (11, 3, binary (std::string (100000, 'x'))) + field (12, 4, all)),
      "bytes besides");
}

/* The client still reads the first reply, so a well-behaved server would not use the segment again
 * yet. */
TEST_F (HostileAnswers, InASegmentThatIsLentAreRefused)
{
  TensorOutcome kept, again;

  pull (connection_, &kept, shared_tensor (ID, 0));
  ASSERT_EQ (kept.decode_error, nullptr) << kept.decode_error->message;
  pull (connection_, &again, shared_tensor (ID, 0));
  EXPECT_NE (again.decode_error, nullptr);
  EXPECT_EQ (server_.n_calls["Memory:release_segments"], 0);
  tps_tensor_clear (&kept.tensor);
  wait_for_release ();
  expect_it_goes_on ();
}

TEST_F (HostileAnswers, ThatChangeWhileTheyAreReadAreSomeValues)
{
  Scribbler scribbler = scribble ();

  for (int i = 0; i < 100; i++)
    {
      TensorOutcome outcome;

      pull (connection_, &outcome, shared_tensor (ID, 64 * i));
      ASSERT_EQ (outcome.decode_error, nullptr) << outcome.decode_error->message;
      for (int n = 0; n < 25000; n++)
        (void) static_cast<const volatile float *> (tps_tensor_data (&outcome.tensor))[n];
      tps_tensor_clear (&outcome.tensor);
      wait_for_release ();
    }
}

/* Integers are ids and offsets, so the client must use exactly the bytes that it has checked. It
 * therefore copies them. */
TEST_F (HostileAnswers, ThatChangeDoNotChangeIntegers)
{
  Scribbler scribbler = scribble ();

  for (int dtype : { TPS_DTYPE_INT32, TPS_DTYPE_INT64 })
    for (int i = 0; i < 100; i++)
      {
        TensorOutcome outcome;

        pull (connection_, &outcome,
              shared (dtype, { dtype == TPS_DTYPE_INT32 ? 25000 : 12500 }, slice (ID, 0, 100000)));
        ASSERT_EQ (outcome.decode_error, nullptr) << outcome.decode_error->message;
        EXPECT_FALSE (tps_buffer_is_shared (outcome.tensor.buffer));
        const char *bytes = static_cast<const char *> (tps_tensor_data (&outcome.tensor));
        std::string first (bytes, 100000);
        wait_for_release ();
        settle (connection_); /* gives the scribbler time */
        EXPECT_EQ (memcmp (bytes, first.data (), first.size ()), 0);
      }
}

/* A sparse average, decoded as a trainer does. */
struct Average
{
  ~Average ()
  {
    tps_gradient_clear (&gradient);
  }

  static void
  done (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
  {
    Average *self = static_cast<Average *> (user_data);

    if (error == nullptr)
      {
        EXPECT_TRUE (tps_rpc_read_result (&tps_average_gradient_rpc, result, type, &self->gradient,
                                          nullptr));
      }
    Outcome::done (&self->outcome, nullptr, TPS_WIRE_STOP, error);
  }

  TpsGradient gradient = {};
  Outcome outcome;
};

TEST_F (HostileAnswers, ThatChangeDoNotChangeTheRowsOfAnAverage)
{
  constexpr int64_t n = 100, rows = 1000, dim = 16;
  const std::string indices = shared (TPS_DTYPE_INT64, { n }, slice (ID, 0, n * 8));
  const std::string values = shared (1, { n, dim }, slice (ID, 1024, n * dim * 4));
  const std::string sparse = field (12, 1, indices) + field (12, 2, values)
                             + field (15, 3, list ({ rows, dim })) + '\0';
  guint8 *bytes = server_.segments[ID]->data;
  Scribbler scribbler (bytes + 8 * (n - 1), 64); /* makes the last id valid or invalid */
  int n_right = 0;

  for (int i = 0; i < 200; i++)
    {
      Average average;

      for (gint64 id = 0; id < n; id++)
        memcpy (bytes + 8 * id, &id, sizeof id);
      tps_client_call (client_, "Calculator", "average", nullptr, nullptr, later (), Average::done,
                       &average);
      ReceivedCall call = server_.read_call (connection_);
      connection_.send (reply ("average", call.seqid, field (12, 0, field (12, 2, sparse) + '\0')));
      average.outcome.wait ();
      ASSERT_EQ (average.gradient.kind, TPS_GRADIENT_SPARSE);
      bool is_right = tps_gradient_check (&average.gradient, nullptr);
      settle (connection_);
      EXPECT_EQ (tps_gradient_check (&average.gradient, nullptr), is_right);
      tps_gradient_clear (&average.gradient);
      wait_for_release ();
      n_right += is_right;
    }
  std::printf ("%d of 200 averages were right\n", n_right);
}

} // namespace
} // namespace tps_test
