/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests tables over two scripted servers: the requests and their order, the retries, and the effect
 * of a failed call on others. */

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "plugin/client/remote_tables.h"
#include "tests/plugin/client/client_fixture.h"
#include "tests/plugin/client/tables/bags.h"

namespace tps_test {

/* Returns the TableSpec of one of the two shards by range of a table of 10 rows and dim 1. */
static std::string
table_spec (const std::string &name, int first_row)
{
  return field (11, 1, binary (name)) + field (10, 2, be64 (10)) + field (8, 3, be32 (1))
         + field (8, 4, be32 (TPS_DTYPE_FLOAT32)) + field (10, 7, be64 (first_row))
         + field (10, 11, be64 (5)) + '\0';
}

static std::string
list_of (const std::vector<std::string> &structs)
{
  std::string list = std::string (1, 12) + be32 (static_cast<int64_t> (structs.size ()));

  for (const std::string &each : structs)
    list += each;
  return list;
}

/* Returns a FLOAT32 tensor of shape [n, 1]. */
static std::string
column (const std::vector<float> &values)
{
  std::string bytes (reinterpret_cast<const char *> (values.data ()), values.size () * 4);

  return field (8, 1, be32 (TPS_DTYPE_FLOAT32))
         + field (15, 2,
                  std::string (1, 10) + be32 (2) + be64 (static_cast<int64_t> (values.size ()))
                      + be64 (1))
         + field (11, 3, binary (bytes)) + '\0';
}

/* The outcome of a lookup or a push. */
class Result : public Ending
{
public:
  static void
  looked_up (gpointer user_data, TpsTensor *outputs, const GError *error)
  {
    Result *self = static_cast<Result *> (user_data);
    std::vector<float> values;

    EXPECT_EQ (outputs == nullptr, error != nullptr);
    if (outputs != nullptr)
      {
        values.resize (static_cast<size_t> (tps_shape_n_elems (&outputs[0].shape)));
        memcpy (values.data (), tps_tensor_data (&outputs[0]), values.size () * 4);
      }
    self->set (values, error);
  }

  static void
  applied (gpointer user_data, const GError *error)
  {
    static_cast<Result *> (user_data)->set ({}, error);
  }

  std::vector<float> values;
  std::thread::id thread;

private:
  void
  set (const std::vector<float> &answered, const GError *error)
  {
    end (error, [&] {
      values = answered;
      thread = std::this_thread::get_id ();
    });
  }
};

/* Table "emb" is on both servers, sharded by range. */
class RemoteTables : public testing::Test
{
protected:
  RemoteTables ()
  {
    for (int i = 0; i < 2; i++)
      addresses_.push_back (listeners_[i].address ());
    const gchar *addresses[] = { addresses_[0].c_str (), addresses_[1].c_str () };
    TpsRemoteTablesOptions options = {};

    options.addresses = addresses;
    options.n_addresses = 2;
    options.client = "trainer7";
    tables_ = tps_remote_tables_new (&options, nullptr);
    std::thread discovery ([this] {
      g_autoptr (GError) error = nullptr;
      EXPECT_TRUE (tps_remote_tables_discover (tables_, later (), &error)) << error->message;
    });
    for (int i = 0; i < 2; i++)
      servers_.push_back (listeners_[i].accept ());
    const std::vector<std::string> held[] = { { table_spec ("emb", 0) },
                                              { table_spec ("emb", 5) } };
    for (size_t i = 0; i < 2; i++)
      {
        ReceivedCall call = servers_[i].read_call ();

        EXPECT_EQ (call.name, "EmbeddingTable:list_tables");
        servers_[i].send (reply ("list_tables", call.seqid, field (15, 0, list_of (held[i]))));
      }
    discovery.join ();
    bags_.table = "emb";
    bags_.indices = { 1, 8, 2, 9 };
    bags_.offsets = { 0, 2 };
    bags_.gradient = { 1, 2 };
  }

  ~RemoteTables () override
  {
    free_tables ();
  }

  void
  free_tables ()
  {
    g_clear_pointer (&tables_, tps_remote_tables_free);
  }

  void
  look_up (Result *result, gint64 deadline_ns)
  {
    TpsBagQuery query = bags_.query ();

    tps_remote_tables_lookup_bags (tables_, &query, 1, deadline_ns, Result::looked_up, result);
  }

  void
  push (Result *result, gint64 deadline_ns)
  {
    TpsBagGradient gradient = bags_.bag_gradient (1);

    tps_remote_tables_apply_bags (tables_, &gradient, 1, deadline_ns, Result::applied, result);
  }

  void
  answer (size_t server, const ReceivedCall &call, const std::vector<float> &values)
  {
    servers_[server].send (
        reply ("lookup_bags", call.seqid, field (15, 0, list_of ({ column (values) }))));
  }

  void
  accept_push (size_t server, const ReceivedCall &call)
  {
    servers_[server].send (reply ("apply_bag_gradients", call.seqid, ""));
  }

  std::string
  name_of (size_t server) const
  {
    return "server " + std::to_string (server) + " (" + addresses_[server] + "): ";
  }

  Listener listeners_[2];
  std::vector<std::string> addresses_;
  std::vector<Connection> servers_;
  TpsRemoteTables *tables_;
  Bags bags_;
};

TEST_F (RemoteTables, AllServersAreAskedBeforeAnyAnswers)
{
  Result result;

  look_up (&result, later ());
  ReceivedCall second = servers_[1].read_call (), first = servers_[0].read_call ();
  EXPECT_EQ (first.name, "EmbeddingTable:lookup_bags");
  answer (1, second, { 10, 20 });
  EXPECT_FALSE (result.is_done ());
  answer (0, first, { 1, 2 });
  result.wait ();
  EXPECT_EQ (result.values, std::vector<float> ({ 11, 22 })) << result.text ();
}

TEST_F (RemoteTables, PushesHaveIdsOfTheirOwn)
{
  Result first, second;
  std::string client = field (11, 1, binary ("trainer7"));

  push (&first, later ());
  ReceivedCall calls[2] = { servers_[0].read_call (), servers_[1].read_call () };
  EXPECT_NE (calls[0].inside.find (client + field (10, 2, be64 (1))), std::string::npos);
  EXPECT_NE (calls[1].inside.find (client + field (10, 2, be64 (2))), std::string::npos);
  accept_push (0, calls[0]);
  accept_push (1, calls[1]);
  first.wait ();
  EXPECT_EQ (first.text (), "");
  push (&second, later ());
  ReceivedCall third = servers_[0].read_call ();
  EXPECT_NE (third.inside.find (client + field (10, 2, be64 (3))), std::string::npos);
  accept_push (0, third);
  accept_push (1, servers_[1].read_call ());
  second.wait ();
}

TEST_F (RemoteTables, FullServerGetsTheSamePushAgainAfterItsTime)
{
  Result result;
  gint64 asked_ns;
  ReceivedCall again;

  push (&result, later ());
  ReceivedCall call = servers_[1].read_call ();
  asked_ns = now_ns ();
  for (int i = 0; i < 3; i++)
    {
      servers_[1].send (service_error ("apply_bag_gradients",
                                       again.seqid ? again.seqid : call.seqid, 7, "full", 10));
      again = servers_[1].read_call ();
      EXPECT_EQ (again.inside, call.inside);
    }
  accept_push (1, again);
  accept_push (0, servers_[0].read_call ());
  result.wait ();
  EXPECT_EQ (result.text (), "");
  EXPECT_GE (result.done_ns () - asked_ns, 3 * 10 * 1000000);
}

TEST_F (RemoteTables, FullServerIsReportedWithItsTimeWhereTheDeadlineIsSooner)
{
  Result result;

  look_up (&result, later ());
  answer (0, servers_[0].read_call (), { 1, 2 });
  servers_[1].send (
      service_error ("lookup_bags", servers_[1].read_call ().seqid, 7, "full", 1000000));
  result.wait ();
  EXPECT_EQ (result.code (), TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (result.text (), name_of (1) + "full");
}

TEST_F (RemoteTables, LostConnectionGetsTheSamePushAgain)
{
  Result result;

  push (&result, later ());
  ReceivedCall call = servers_[0].read_call ();
  servers_[0].close ();
  servers_[0] = listeners_[0].accept ();
  ReceivedCall again = servers_[0].read_call ();
  EXPECT_EQ (again.inside, call.inside);
  accept_push (0, again);
  accept_push (1, servers_[1].read_call ());
  result.wait ();
  EXPECT_EQ (result.text (), "");
}

TEST_F (RemoteTables, ErrorComesWhenAllCallsHaveEndedAndCountsTheAppliedParts)
{
  Result result;

  push (&result, later ());
  servers_[0].send (
      service_error ("apply_bag_gradients", servers_[0].read_call ().seqid, 4, "too old"));
  ReceivedCall call = servers_[1].read_call ();
  EXPECT_FALSE (result.is_done ());
  accept_push (1, call);
  result.wait ();
  EXPECT_EQ (result.code (), TPS_ERROR_STALE);
  EXPECT_EQ (result.text (), name_of (0) + "too old; applied on 1 of 2 servers");
}

TEST_F (RemoteTables, AnswersThatDoNotFitAreTheServersFault)
{
  const std::string wrong[] = {
    field (15, 0, list_of ({})),                                       /* too few */
    field (15, 0, list_of ({ column ({ 1, 2, 3 }) })),                 /* too many bags */
    field (15, 0, list_of ({ column ({ 1, 2 }), column ({ 1, 2 }) })), /* too many */
    field (10, 0, be64 (1)),                                           /* no list */
    "",                                                                /* void */
  };

  for (const std::string &inside : wrong)
    {
      Result result;

      look_up (&result, later ());
      answer (0, servers_[0].read_call (), { 1, 2 });
      servers_[1].send (reply ("lookup_bags", servers_[1].read_call ().seqid, inside));
      result.wait ();
      EXPECT_EQ (result.code (), TPS_ERROR_INTERNAL);
      EXPECT_EQ (result.text ().find (name_of (1)), 0u) << result.text ();
    }
}

TEST_F (RemoteTables, DoneNeverRunsInsideTheCall)
{
  Result unknown, nothing;

  bags_.table = "nowhere";
  look_up (&unknown, later ());
  unknown.wait ();
  EXPECT_EQ (unknown.code (), TPS_ERROR_NOT_FOUND);
  EXPECT_NE (unknown.thread, std::this_thread::get_id ());
  bags_ = Bags ();
  bags_.table = "emb";
  push (&nothing, later ());
  nothing.wait ();
  EXPECT_EQ (nothing.text (), "");
  EXPECT_NE (nothing.thread, std::this_thread::get_id ());
}

TEST_F (RemoteTables, CancelEndsCallsRetriesAndLaterCalls)
{
  Result waiting, retrying, after, nothing;

  look_up (&waiting, later ());
  servers_[0].read_call ();
  servers_[1].read_call ();
  push (&retrying, in_ms (100000));
  servers_[0].send (
      service_error ("apply_bag_gradients", servers_[0].read_call ().seqid, 7, "full", 50000));
  servers_[1].read_call ();
  tps_remote_tables_cancel (tables_);
  look_up (&after, later ());
  bags_.table = "nowhere";
  push (&nothing, later ());
  for (Result *result : { &waiting, &retrying, &after, &nothing })
    {
      result->wait ();
      EXPECT_EQ (result->code (), TPS_ERROR_ABORTED) << result->text ();
    }
}

/* A push with MAX pooling first fetches the rows of the maxima, and then pushes. If the tables are
 * freed in between, nothing may be sent to freed clients. */
TEST_F (RemoteTables, FreeEndsCallsInFlightBetweenTheirSteps)
{
  for (int i = 0; i < 2; i++)
    {
      Result result;

      bags_.pooling = TPS_POOLING_MAX;
      push (&result, later ());
      ReceivedCall calls[2] = { servers_[0].read_call (), servers_[1].read_call () };
      EXPECT_EQ (calls[0].name, "EmbeddingTable:lookup_bags");
      answer (0, calls[0], { 1, 2 });
      answer (1, calls[1], { 3, 4 });
      if (i == 0)
        {
          accept_push (1, servers_[1].read_call ()); /* both maxima are on server 1 */
          result.wait ();
          EXPECT_EQ (result.text (), "");
          continue;
        }
      free_tables ();
      result.wait ();
      EXPECT_TRUE (result.code () == TPS_ERROR_ABORTED) << result.text ();
    }
}

}
