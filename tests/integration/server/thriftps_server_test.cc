// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the standalone server as users run it: its output, sockets and flags, and its end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "plugin/wire/wire_node.h"
#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/gradient_call.h"
#include "tests/plugin/server/memory/shared_client.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Writes the arguments of get (key, timeout_ms).
WriteFields
GetKey (const char *key, gint32 timeout_ms)
{
  return [=] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_string (out, key);
    tps_writer_field (out, 2, TPS_WIRE_I32);
    tps_writer_i32 (out, timeout_ms);
  };
}

WriteFields
PushOne (gint32 trainer)
{
  return Push (trainer, 1, 1, 1);
}

TEST (ThriftpsServer, PrintsItsAddressesAndServesEveryService)
{
  std::string path = TemporaryFolder () + "/socket";
  ServerProcess server ({ "--listen=127.0.0.1:0", "--listen", "unix:" + path });
  std::string tcp = server.ReadAddress ();
  EXPECT_EQ (server.ReadAddress (), "unix:" + path);
  for (const std::string &address : { tcp, "unix:" + path })
    {
      RawClient client (address);
      for (const char *name : { "Node:describe", "ParameterServer:reset_state", "reset_state",
                                "EmbeddingTable:list_tables" })
        EXPECT_EQ (ErrorCode (client.Call (name)), 0) << name;
      EXPECT_EQ (ErrorCode (client.Call ("Rendezvous:get", GetKey ("k", 0))), 2);
      EXPECT_EQ (ExceptionKind (client.Call ("EmbeddingTable:later_method")), 1);
      EXPECT_THAT (ErrorText (client.Call ("EmbeddingTable:later_method")),
                   HasSubstr ("unknown method"));
    }
  struct stat status;
  ASSERT_EQ (stat (path.c_str (), &status), 0);
  EXPECT_EQ (status.st_mode & 0777, 0600u);
}

TEST (ThriftpsServer, ServesOnlyTheServicesOfItsFlag)
{
  ServerProcess server (
      { "--listen=127.0.0.1:0", "--services=Node,Rendezvous", "--default_service=Node" });
  RawClient client (server.ReadAddress ());
  EXPECT_EQ (ErrorCode (client.Call ("describe")), 0);
  EXPECT_EQ (ExceptionKind (client.Call ("ParameterServer:reset_state")), 1);
}

// thriftps_trainer is the same server with one more service.
TEST (ThriftpsTrainer, ServesTheTrainerBesideTheOtherServices)
{
  const char *const program = "plugin/trainer/thriftps_trainer";
  ServerProcess all ({ "--listen=127.0.0.1:0" }, program);
  RawClient client (all.ReadAddress ());
  for (const char *name : { "Trainer:status", "ParameterServer:reset_state", "reset_state" })
    EXPECT_EQ (ErrorCode (client.Call (name)), 0) << name;
  ServerProcess alone ({ "--listen=127.0.0.1:0", "--services=Trainer" }, program);
  RawClient other (alone.ReadAddress ());
  EXPECT_EQ (ErrorCode (other.Call ("status")), 0);
  EXPECT_EQ (ExceptionKind (other.Call ("ParameterServer:reset_state")), 1);
  ServerProcess none ({ "--listen=127.0.0.1:0", "--services=Rendezvous" }, program);
  EXPECT_EQ (ExceptionKind (RawClient (none.ReadAddress ()).Call ("Trainer:status")), 1);
  ServerProcess refused ({ "--services=Nope" }, program);
  EXPECT_EQ (refused.Wait (), 2);
  EXPECT_EQ (refused.ReadErrors (),
             "thriftps_trainer: --services: unknown service \"Nope\"; known: Node, "
             "ParameterServer, EmbeddingTable, Rendezvous, Trainer\n");
}

// Clients ask the Node service for the limit of frames and for shared memory. Without Node, both
// would be unavailable, and no error would tell the user.
TEST (ThriftpsServer, ServesNodeWithAnySetOfServices)
{
  std::string address = "unix:" + TemporaryFolder () + "/socket";
  for (const std::string name : { "ParameterServer", "EmbeddingTable", "Rendezvous" })
    {
      ServerProcess server ({ "--listen=" + address, "--services=" + name, "--max-frame-mib=5",
                              "--max-shared-mib=3" });
      ASSERT_EQ (server.ReadAddress (), address);
      g_auto (TpsNodeInfo) info = {};
      SharedClient client (address);
      client.raw ().Send ("Node:describe", 0);
      ASSERT_TRUE (client.Receive (ReadResultOf<tps_describe_rpc>, &info)) << client.LastError ();
      EXPECT_EQ (info.max_frame_bytes, 5 << 20);
      EXPECT_EQ (info.max_shared_bytes, 3 << 20);
      for (const char *served : { name.c_str (), "Node", "Memory", "Session", "Chunks" })
        EXPECT_TRUE (g_strv_contains (info.services, served)) << served;
      EXPECT_EQ (g_strv_length (info.services), 5u);
      EXPECT_EQ (client.Open (TPS_SEGMENT_REQUESTS, 1 << 20).size, gsize { 1 << 20 });
    }
}

TEST (ThriftpsServer, ServesTheOnlyServiceBesidesNodeToClientsThatDoNotMultiplex)
{
  for (const char *services : { "--services=EmbeddingTable", "--services=Node,EmbeddingTable" })
    {
      ServerProcess server ({ "--listen=127.0.0.1:0", services });
      RawClient client (server.ReadAddress ());
      EXPECT_EQ (ErrorCode (client.Call ("list_tables")), 0) << services;
    }
  ServerProcess node ({ "--listen=127.0.0.1:0", "--services=Node" });
  EXPECT_EQ (ErrorCode (RawClient (node.ReadAddress ()).Call ("describe")), 0);
  ServerProcess two ({ "--listen=127.0.0.1:0", "--services=EmbeddingTable,Rendezvous" });
  EXPECT_EQ (ExceptionKind (RawClient (two.ReadAddress ()).Call ("list_tables")), 1);
}

TEST (ThriftpsServer, EndsOnSigtermWithWaitingCallsAnswered)
{
  ServerProcess server ({ "--listen=127.0.0.1:0", "--ntrainer=2" });
  std::string address = server.ReadAddress ();
  RawClient averaging (address), getting (address), idle (address);
  averaging.Send ("ParameterServer:average_gradient", 1, PushOne (0));
  getting.Send ("Rendezvous:get", 1, GetKey ("never", 60000));
  // Requests of a connection are read in order. So these replies prove that the server has read the
  // earlier requests.
  averaging.Send ("Node:describe", 2);
  getting.Send ("Node:describe", 2);
  EXPECT_EQ (averaging.Receive ()->seqid, 2);
  EXPECT_EQ (getting.Receive ()->seqid, 2);

  server.Signal (SIGTERM);
  EXPECT_EQ (ErrorCode (averaging.Receive ()), 8);
  EXPECT_EQ (ErrorCode (getting.Receive ()), 8);
  EXPECT_EQ (averaging.Receive (), nullptr);
  EXPECT_EQ (idle.Receive (), nullptr);
  EXPECT_EQ (server.Wait (), 0);
}

TEST (ThriftpsServer, EndsOnSigintWithAClientThatDoesNotRead)
{
  ServerProcess server ({ "--listen=127.0.0.1:0", "--ntrainer=1" });
  RawClient client (server.ReadAddress ());
  std::string flood;
  for (int i = 0; i < 10; i++)
    flood += MessageBytes ({}, "ParameterServer:average_gradient", i, Push (0, i, 2 << 20, 1));
  client.SendUntilStuck (flood, 100);
  server.Signal (SIGINT);
  EXPECT_EQ (server.Wait (), 0);
}

TEST (ThriftpsServer, RoundsEndByTheirDeadline)
{
  ServerProcess server ({ "--listen=127.0.0.1:0", "--ntrainer=3", "--rpc-timeout=0.2" });
  RawClient client (server.ReadAddress ());
  Message answer = client.Call ("average_gradient", PushOne (1));
  EXPECT_EQ (ErrorCode (answer), 6);
  EXPECT_THAT (ErrorText (answer), HasSubstr ("0"));
  EXPECT_THAT (ErrorText (answer), HasSubstr ("2"));
}

TEST (ThriftpsServer, LogsItsStartItsStopFailedRequestsAndExpiredRounds)
{
  ServerProcess server ({ "--listen=127.0.0.1:0", "--ntrainer=2", "--rpc-timeout=0.1" });
  std::string address = server.ReadAddress ();
  {
    RawClient client (address);
    EXPECT_EQ (ErrorCode (client.Call ("average_gradient", PushOne (1))), 6);
    EXPECT_EQ (ErrorCode (client.Call ("ParameterServer:reset_state")), 0);
    EXPECT_EQ (ErrorCode (client.Call ("EmbeddingTable:drop_table",
                                       [] (TpsWriter *out) {
                                         tps_writer_field (out, 1, TPS_WIRE_BINARY);
                                         tps_writer_string (out, "none\n");
                                       })),
               1);
  }
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  std::string log = server.ReadErrors ();
  EXPECT_THAT (log, HasSubstr (" INFO server_listening address=" + address + "\n"));
  EXPECT_THAT (
      log,
      HasSubstr (" WARNING round_expired batch=1 param_loc=0 trainers=2 missing=\"trainer 0\"\n"));
  EXPECT_THAT (log, HasSubstr (" INFO request_failed method=average_gradient peer=127.0.0.1:"));
  EXPECT_THAT (log, HasSubstr (" code=DEADLINE_EXCEEDED message=\"round (batch 1"));
  EXPECT_THAT (log, HasSubstr (" INFO state_reset peer=127.0.0.1:"));
  EXPECT_THAT (log, HasSubstr (" INFO request_failed method=EmbeddingTable:drop_table peer="));
  EXPECT_THAT (log, HasSubstr (" INFO signal_taken signal=Terminated\n"));
  EXPECT_THAT (log, HasSubstr (" INFO server_stopped all_answered=true\n"));
}

// The gradients have half a MiB of FLOAT16, and their sum has a MiB of FLOAT32.
TEST (ThriftpsServer, SumsHaveABudgetOfTheSameSizeAsPendingCalls)
{
  constexpr gint64 kElems = 256 << 10;
  WriteFields push = PushBytes (0, 0, TPS_DTYPE_FLOAT16, kElems, std::string (2 * kElems, 0));
  for (int mib : { 1, 2 })
    {
      ServerProcess server (
          { "--listen=127.0.0.1:0", "--max-pending-mib=" + std::to_string (mib) });
      Message answer = RawClient (server.ReadAddress ()).Call ("average_gradient", push);
      EXPECT_EQ (ErrorCode (answer), mib == 1 ? 7 : 0);
      EXPECT_THAT (ErrorText (answer),
                   HasSubstr (mib == 1 ? "the budget of averages: no room for" : ""));
    }
}

// The library in this folder provides a device that computes like the CPU. The loader looks for it
// there.
TEST (ThriftpsServer, AveragesOnTheDeviceThatItIsTold)
{
  setenv ("LD_LIBRARY_PATH", "tests/cuda/host", 1);
  setenv ("THRIFTPS_CUDA_LIBRARY", "tests/runtime/fake_device/libfake_device.so", 1);
  ServerProcess server ({ "--listen=127.0.0.1:0", "--device=cuda:1", "--ntrainer=2" });
  unsetenv ("LD_LIBRARY_PATH");
  unsetenv ("THRIFTPS_CUDA_LIBRARY");
  RawClient client (server.ReadAddress ());
  for (gint64 batch = 0; batch < 3; batch++)
    for (gint64 n_elems : { 1, 100000 })
      {
        client.Send ("average_gradient", 0, Push (0, 2 * batch + (n_elems > 1), n_elems, 1));
        client.Send ("average_gradient", 1, Push (1, 2 * batch + (n_elems > 1), n_elems, 4));
        for (int trainer = 0; trainer < 2; trainer++)
          EXPECT_EQ (Average (client.Receive ()), std::vector<float> ((size_t) n_elems, 2.5f));
      }
  EXPECT_EQ (ErrorCode (client.Call ("Node:describe")), 0);
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  EXPECT_THAT (server.ReadErrors (), HasSubstr ("cuda:1 a fake for tests"));
}

TEST (ThriftpsServer, ReplacesTheSocketOfADeadServerAndNotOfALivingOne)
{
  std::string address = "unix:" + TemporaryFolder () + "/socket";
  auto first = std::make_unique<ServerProcess> (std::vector<std::string> { "--listen=" + address });
  ASSERT_EQ (first->ReadAddress (), address);

  ServerProcess rival ({ "--listen=" + address });
  EXPECT_EQ (rival.ReadLine (), "");
  EXPECT_EQ (rival.Wait (), 1);
  EXPECT_THAT (rival.ReadErrors (), HasSubstr (address));

  first->Signal (SIGKILL);
  first->Wait ();
  ServerProcess heir ({ "--listen=" + address });
  EXPECT_EQ (heir.ReadAddress (), address);
  EXPECT_EQ (ErrorCode (RawClient (address).Call ("Node:describe")), 0);
}

// Calls open_segment (MEMFD, REQUESTS, `n_bytes`), and returns the code of the error.
int
OpenSegmentCode (const std::string &address, gint64 n_bytes)
{
  RawClient client (address);

  return ErrorCode (client.Call ("Memory:open_segment", [=] (TpsWriter *out) {
    for (gint16 id : { 1, 2 })
      {
        tps_writer_field (out, id, TPS_WIRE_I32);
        tps_writer_i32 (out, 1);
      }
    tps_writer_field (out, 3, TPS_WIRE_I64);
    tps_writer_i64 (out, n_bytes);
  }));
}

TEST (ThriftpsServer, SharesMemoryUpToTheLimitOfItsFlagsOrItsFile)
{
  std::string folder = TemporaryFolder ();
  std::string path = folder + "/config.json";
  ASSERT_TRUE (g_file_set_contents (path.c_str (), "{\"max_shared_mib\": 3}", -1, nullptr));
  std::string address = "unix:" + folder + "/socket";
  for (const auto &[flag, max_mib] : std::initializer_list<std::pair<std::string, gint64>> {
           { "--max-shared-mib=2", 2 }, { "--config=" + path, 3 }, { "--max_shared_mib=0", 0 } })
    {
      ServerProcess server ({ "--listen=" + address, "--services=Rendezvous", flag });
      ASSERT_EQ (server.ReadAddress (), address);
      EXPECT_EQ (OpenSegmentCode (address, max_mib << 20), max_mib > 0 ? 0 : 8) << flag;
      EXPECT_EQ (OpenSegmentCode (address, (max_mib << 20) + 1), max_mib > 0 ? 7 : 8) << flag;
    }
}

TEST (ThriftpsServer, NamesAPortInUse)
{
  ServerProcess first ({ "--listen=127.0.0.1:0" });
  std::string address = first.ReadAddress ();
  ServerProcess second ({ "--listen=" + address });
  EXPECT_EQ (second.Wait (), 1);
  std::string errors = second.ReadErrors ();
  EXPECT_THAT (errors, HasSubstr (address));
  EXPECT_THAT (errors, HasSubstr ("in use"));
}

struct BadFlag
{
  std::vector<std::string> flags;
  const char *complaint;
};

TEST (ThriftpsServer, RefusesBadFlagsInOneLine)
{
  const BadFlag cases[] = {
    { { "--nonsense" }, "--nonsense" },
    { { "--ntrainer=0" }, "--ntrainer=0: expected 1 or more" },
    { { "--ntrainer" }, "--ntrainer" },
    { { "--ntrainer=4294967297" }, "--ntrainer" },
    { { "--rpc_timeout=nan" }, "--rpc-timeout=nan" },
    { { "--ntrainer=many" }, "many" },
    { { "--rpc-timeout=0" }, "--rpc-timeout" },
    { { "--max-frame-mib=4096" }, "--max-frame-mib" },
    { { "--max-inflight=0" }, "--max-inflight" },
    { { "--max-shared-mib=-1" }, "--max-shared-mib" },
    { { "--max-table-mib=0" }, "--max-table-mib" },
    { { "--push-window=0" }, "--push-window" },
    { { "--push_clients=0" }, "--push-clients" },
    { { "--ntrainer=2", "--min-trainers=3" }, "--min-trainers" },
    { { "--max-staleness=-1" }, "--max-staleness" },
    { { "--services=Node,Nope" }, "Nope" },
    { { "--services=Trainer" }, "\"Trainer\"; known: Node, " },
    { { "--allow-plain-collectives" }, "needs the service Trainer of thriftps_trainer" },
    { { "--services=Node", "--default-service=Trainer" }, "--default-service" },
    { { "--server=Nope" }, "AverageParameterServer" },
    { { "--reduce=max" }, "--reduce" },
    { { "--table-device=a b" }, "--table-device=a b: expected cpu, cuda, cuda:N or cuda:N/host" },
    { { "--table-device=cpu/host" }, "--table-device=cpu/host: expected cpu, cuda, cuda:N or" },
    { { "--table-device=cuda/host" },
      "--table-device: unknown device \"cuda:0\"; known: cpu; cuda: none: turned off" },
    { { "--device=tpu" }, "--device=tpu: expected cpu, cuda or cuda:N" },
    { { "--device=cuda:-1" }, "--device=cuda:-1: expected cpu, cuda or cuda:N" },
    { { "--device=cuda" },
      "--device: unknown device \"cuda:0\"; known: cpu; cuda: none: turned off" },
    { { "--device=cuda:3" }, "--device: unknown device \"cuda:3\"" },
    { { "--listen=localhost" }, "localhost" },
    { { "--log-level=loud" }, "--log-level" },
    { { "--tls=maybe" }, "--tls=maybe: expected off, allowed or required" },
    { { "--tls=required" }, "--tls=required needs --tls-cert=FILE" },
    { { "--tls-cert=/a" }, "--tls-cert has no effect without --tls=allowed or --tls=required" },
    { { "--tls-ca=/a" }, "--tls-ca has no effect without --tls=allowed or --tls=required" },
    { { "--tls-key=/a" }, "--tls-key has no effect without --tls=allowed or --tls=required" },
    { { "--tls-min=1.2" }, "--tls-min has no effect without --tls=allowed or --tls=required" },
    { { "--tls=required", "--tls-cert=/a", "--tls-min=1.1" },
      "--tls-min=1.1: expected 1.2 or 1.3" },
    { { "--config=/no/such/file" }, "/no/such/file" },
    { { "--config=/dev/zero" }, "/dev/zero: it is not a regular file" },
    { { "stray" }, "stray" },
  };
  setenv ("THRIFTPS_CUDA_LIBRARY", "none", 1);
  for (const BadFlag &bad : cases)
    {
      ServerProcess server (bad.flags);
      std::string errors = server.ReadErrors ();
      EXPECT_EQ (server.Wait (), 2) << bad.flags[0];
      EXPECT_THAT (errors, HasSubstr (bad.complaint));
      EXPECT_EQ (errors.find ('\n'), errors.size () - 1) << errors;
    }
}

TEST (ThriftpsServer, TakesFlagsFromAFile)
{
  std::string path = TemporaryFolder () + "/config.json";
  ASSERT_TRUE (g_file_set_contents (
      path.c_str (),
      "{\"listen\": [\"127.0.0.1:0\", \"127.0.0.1:0\"], \"ntrainer\": 2, "
      "\"rpc_timeout\": 0.1, \"device\": \"cpu\", \"services\": \"ParameterServer\"}",
      -1, nullptr));
  {
    ServerProcess server ({ "--config", path });
    EXPECT_NE (server.ReadAddress (), "");
    RawClient client (server.ReadAddress ());
    EXPECT_EQ (ErrorCode (client.Call ("average_gradient", PushOne (0))), 6);
    EXPECT_EQ (ExceptionKind (client.Call ("Rendezvous:get", GetKey ("k", 0))), 1);
  }
  ServerProcess overridden ({ "--config=" + path, "--ntrainer=1",
                              "--services=ParameterServer,Rendezvous", "--device=cpu" });
  RawClient client (overridden.ReadAddress ());
  EXPECT_EQ (ErrorCode (client.Call ("average_gradient", PushOne (0))), 0);
  EXPECT_EQ (ErrorCode (client.Call ("Rendezvous:get", GetKey ("k", 0))), 2);
}

TEST (ThriftpsServer, NamesTheFileWhoseFlagsAreBad)
{
  std::string path = TemporaryFolder () + "/config.json";
  const std::string deep = "/* \" */"
                           + std::string (1000000, '['); // json-glib would overflow the stack
  const char *const contents[][2] = {
    { deep.c_str (), "more than 16384 brackets" },
    { "{\"nonsense\": 1}", "nonsense" },
    { "{\"ntrainer\": \"many\"}", "many" },
    { "{\"push_window\": true}", "push_window" },
    { "[]", "JSON object" },
  };
  for (const auto &content : contents)
    {
      ASSERT_TRUE (g_file_set_contents (path.c_str (), content[0], -1, nullptr));
      ServerProcess server ({ "--config=" + path });
      std::string errors = server.ReadErrors ();
      EXPECT_EQ (server.Wait (), 2);
      EXPECT_THAT (errors, HasSubstr (path));
      EXPECT_THAT (errors, HasSubstr (content[1]));
    }
}

// The output must name the line, and must not contain the text of a line that may be a token.
TEST (ThriftpsServer, NamesTheLineOfABrokenAccessFile)
{
  const std::string hash = " sha256:" + std::string (64, 'a'), good = "a" + hash + "\n",
                    rule = "{\"rules\": [\n {\"principals\": [\"a\"], ",
                    tenant = "{\"rules\": [], \"tenants\": {\n\"ads\": ";
  const std::pair<std::string, const char *> rules[] = {
    { "", ":1: expected an object with the array \"rules\"" },
    { "{\"rule\": []}", ":1: expected an object with the array \"rules\"" },
    { "{\"rules\": [\n 5 ]}", ":2: a rule must be an object" },
    { rule + "\n\"rihgts\": [\"read\"]}]}", ":3: \"rihgts\" is unknown" },
    { rule + "\"rights\": [\"write\"]}]}", ":2: \"write\" is not a right" },
    { rule + "\"tables\": [\"a\"]}]}", ":2: a rule must have \"principals\" and \"rights\"" },
    { rule + "\"rights\": []}]}", ":2: \"rights\" must be a non-empty array of strings" },
    { rule + "\"methods\": [\n7]}]}", ":3: \"methods\" has an element that is not a string" },
    { rule + "\"tenant\": 5}]}", ":2: \"tenant\" must be a string" },
    { rule + "\"tables\": [\"a\"],\n \"tables\": [\"*\"]}]}", ":3: \"tables\" occurs twice" },
    { "{\"rules\": [\n { ] }", ":2: it is not JSON: " },
    { "// \"\n" + std::string (500000, '['), ":0: it has more than 16384 brackets" },
    { tenant + "3}}", "tenants.ads: expected an object of limits" },
    { tenant + "{\"calls\": 3}}}", "tenants.ads.calls: there is no such limit" },
    { tenant + "{\"calls_per_s\": 0}}}", "tenants.ads.calls_per_s: expected a whole number" },
    { tenant + "{\"calls_per_s\": 1.5}}}", "tenants.ads.calls_per_s: expected a whole number" },
    { tenant + "{\"calls_per_s\": \"1\"}}}", "tenants.ads.calls_per_s: expected a whole number" },
    { tenant + "{\"rows_burst\": 1}}}", "tenants.ads.rows_per_s: the rate is missing" },
  };
  const std::pair<std::string, const char *> tokens[] = {
    { good + "tps_secret", ":2: expected NAME sha256:HASH [TENANT]" },
    { good + "tps_secret sha256:12", ":2: the hash must be sha256: and 64 hexadecimal digits" },
    { good + "b" + hash, ":2: this hash occurs twice" },
    { good + "b\x01" + hash, ":2: the name must match" },
    { good + "tps_secret" + hash + " b c", ":2: expected NAME sha256:HASH [TENANT]" },
  };
  const std::string path = TemporaryFolder () + "/file";
  auto expect_refusal = [&] (const char *flag, const std::string &text, const char *complaint) {
    ASSERT_TRUE (g_file_set_contents (path.c_str (), text.data (), (gssize) text.size (), nullptr));
    ServerProcess server ({ flag + path, "--insecure" });
    const std::string errors = server.ReadErrors ();
    EXPECT_THAT (errors, AllOf (HasSubstr (path), HasSubstr (complaint),
                                testing::Not (HasSubstr ("tps_secret"))));
    EXPECT_NE (server.Wait (), 0);
  };
  for (const auto &[text, complaint] : rules)
    expect_refusal ("--access-file=", text, complaint);
  for (const auto &[text, complaint] : tokens)
    expect_refusal ("--token-file=", text, complaint);
}

// The pipe has no writer, so a read would block.
TEST (ThriftpsServer, RefusesAPipeInPlaceOfAFile)
{
  std::string path = TemporaryFolder () + "/pipe";
  ASSERT_EQ (mkfifo (path.c_str (), 0600), 0);
  const std::vector<std::string> flags[] = {
    { "--config=" + path },
    { "--access-file=" + path, "--insecure" },
    { "--token-file=" + path, "--insecure" },
    { "--tls=required", "--tls-cert=" + path },
  };
  for (const std::vector<std::string> &flag : flags)
    {
      ServerProcess server (flag);
      EXPECT_THAT (server.ReadErrors (),
                   AllOf (HasSubstr (path), HasSubstr ("it is not a regular file")));
      EXPECT_NE (server.Wait (), 0);
    }
}

bool
HasSignal (pid_t pid, const char *set, int signal_number)
{
  std::ifstream status ("/proc/" + std::to_string (pid) + "/status");
  std::string word;
  while (status >> word)
    if (word == set && status >> word)
      return (std::stoull (word, nullptr, 16) >> (signal_number - 1) & 1) != 0;
  return false;
}

bool
Catches (pid_t pid, int signal_number)
{
  return HasSignal (pid, "SigCgt:", signal_number);
}

// The server blocks at its start, because the pipe has no reader.
TEST (ThriftpsServer, EndsOnSigtermWhileItStarts)
{
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP () << "the thread sanitizer keeps signals back while open() waits";
#endif
  std::string path = TemporaryFolder () + "/pipe";
  ASSERT_EQ (mkfifo (path.c_str (), 0600), 0);
  ServerProcess server ({ "--log-file=" + path });
  while (!Catches (server.pid (), SIGTERM))
    {
      ASSERT_EQ (waitpid (server.pid (), nullptr, WNOHANG), 0) << "the server has ended";
      std::this_thread::yield ();
    }
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
}

// A reader of the pipe lets the start continue.
TEST (ThriftpsServer, SurvivesHangupsFromItsStartOn)
{
  std::string path = TemporaryFolder () + "/pipe";
  ASSERT_EQ (mkfifo (path.c_str (), 0600), 0);
  ServerProcess server ({ "--log-file=" + path, "--listen=127.0.0.1:0" });
  while (!Catches (server.pid (), SIGTERM))
    {
      ASSERT_EQ (waitpid (server.pid (), nullptr, WNOHANG), 0) << "the server has ended";
      std::this_thread::yield ();
    }
  for (int number : { SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ })
    server.Signal (number);
  int reader = open (path.c_str (), O_RDONLY | O_NONBLOCK);
  ASSERT_GE (reader, 0);
  EXPECT_EQ (ErrorCode (RawClient (server.ReadAddress ()).Call ("Node:describe")), 0);
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  close (reader);
}

TEST (ThriftpsServer, LogsAHangupWithNothingToReload)
{
  auto read_file = [] (const std::string &name) {
    std::ifstream file (name);
    return std::string (std::istreambuf_iterator<char> (file), {});
  };
  std::string path = TemporaryFolder () + "/log";
  ServerProcess server ({ "--listen=127.0.0.1:0", "--log-file=" + path });
  std::string address = server.ReadAddress ();
  for (int number : { SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ })
    server.Signal (number);
  EXPECT_EQ (ErrorCode (RawClient (address).Call ("Node:describe")), 0);
  while (read_file (path).find (" signal_taken signal=Hangup") == std::string::npos)
    {
      ASSERT_EQ (waitpid (server.pid (), nullptr, WNOHANG), 0) << "the server has ended";
      std::this_thread::yield ();
    }
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  EXPECT_THAT (read_file (path), HasSubstr (" signal_taken signal=Terminated"));
}

// Reloads of these rules take longer than signals, so many signals arrive during a reload.
TEST (ThriftpsServer, DoesNotReloadForEachOfManyHangups)
{
  std::string path = TemporaryFolder () + "/rules.json";
  {
    std::ofstream file (path);
    file << R"({"rules": [)";
    for (int i = 0; i < 3000; i++)
      file << R"({"principals": ["user)" << i << R"("], "rights": ["read"], "tables": ["t)" << i
           << R"("]},)";
    file << R"({"principals": ["*"], "rights": ["read"], "tables": ["*"]}]})";
  }
  ServerProcess server ({ "--listen=127.0.0.1:0", "--access-file=" + path });
  ASSERT_NE (server.ReadAddress (), "");
  constexpr size_t n_signals = 500;
  for (size_t i = 0; i < n_signals; i++)
    {
      server.Signal (SIGHUP);
      while (HasSignal (server.pid (), "ShdPnd:", SIGHUP))
        std::this_thread::yield ();
    }
  server.Signal (SIGTERM);
  std::string errors = server.ReadErrors ();
  EXPECT_EQ (server.Wait (), 0);
  size_t n_reloads = 0;
  for (size_t at = 0; (at = errors.find ("access_reloaded", at)) != std::string::npos; at++)
    n_reloads++;
  EXPECT_LT (n_reloads, n_signals / 2);
}

TEST (ThriftpsServer, ServesWithoutStandardStreams)
{
  std::string path = TemporaryFolder () + "/socket";
  ServerProcess server ({ "-c", "exec plugin/app/thriftps_server --log-level=debug --listen=unix:"
                                    + path + " 0<&- 1>&- 2>&-" },
                        "/bin/sh");
  for (;;)
    try
      {
        RawClient client ("unix:" + path);
        EXPECT_EQ (ErrorCode (client.Call ("ParameterServer:reset_state")), 0);
        break;
      }
    catch (const std::runtime_error &)
      {
        // Without a check of its descriptors, the server would end at once with status 0, because
        // its first line would go into its signal pipe.
        ASSERT_EQ (waitpid (server.pid (), nullptr, WNOHANG), 0) << "the server has ended";
        std::this_thread::yield ();
      }
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
}

TEST (ThriftpsServer, TellsItsVersionAndItsFlags)
{
  ServerProcess version ({ "--version" });
  EXPECT_THAT (version.ReadLine (), HasSubstr ("thriftps_server 0."));
  EXPECT_EQ (version.Wait (), 0);
  setenv ("LC_ALL", "C", 1); // all output must be in the characters of this locale
  ServerProcess help ({ "--help" });
  unsetenv ("LC_ALL");
  std::string text = help.ReadAll ();
  EXPECT_EQ (help.Wait (), 0);
  EXPECT_THAT (text, HasSubstr ("Usage: thriftps_server [OPTION]...\n"));
  EXPECT_THAT (text, HasSubstr ("--max-frame-mib=MIB "));
  EXPECT_TRUE (std::all_of (text.begin (), text.end (),
                            [] (char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

} // namespace
} // namespace thriftps_test
