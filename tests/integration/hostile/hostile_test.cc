/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sends hostile bytes to the sockets of real processes, with the library as Debian ships it. After
 * each attack the connection must have an error or be closed, and replies must be well-formed and
 * small. Other clients must be served, and the process must run with bounded memory and CPU
 * time. */

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "tests/integration/host/peer.h"
#include "tests/integration/hostile/attacks.h"
#include "tests/plugin/net/tls/certificates.h"

using hostile::Attack;
using hostile::Form;
using hostile::Outcome;
using hostile::Victim;
using wire::Answer;
using wire::Peer;
using wire::Process;
using wire::Protocol;
using wire::Transport;
using wire::Value;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const bool kSanitized = true;
#else
const bool kSanitized = false;
#endif

const size_t kMaxErrorBytes = 2048;  /* limit for a reply to an attack */
const size_t kMaxGrowth = 64u << 20; /* the pool keeps buffers of every size that was used */
const double kMaxCpuSeconds = kSanitized ? 30 : 1.5;

/* ---- targets ------------------------------------------------------------------------------- */

Value
journal_arguments ()
{
  Value entry = wire::structure (
      { { 1, wire::text ("name") },
        { 2, wire::text (std::string ("\0\1\2", 3)) },
        { 3, wire::list (wire::Double, { wire::real (0.5), wire::real (-1) }) },
        { 4, wire::i32 (2) } });
  return wire::structure ({ { 1, entry } });
}

Value
gradient_arguments ()
{
  Value tensor = wire::structure ({ { 1, wire::i32 (1) },
                                    { 2, wire::list (wire::I64, { wire::i64 (2) }) },
                                    { 3, wire::text (std::string (8, '\0')) } });
  return wire::structure ({ { 1, wire::i32 (0) },
                            { 2, wire::i64 (0) },
                            { 3, wire::i32 (0) },
                            { 4, wire::structure ({ { 1, tensor } }) } });
}

/* Returns arguments of create_table, which may be called again with the same arguments. */
Value
create_table_arguments ()
{
  Value optimizer = wire::structure ({ { 1, wire::i32 (1) }, { 2, wire::real (0.5) } });
  Value initializer = wire::structure ({ { 1, wire::i32 (2) }, { 6, wire::i64 (7) } });
  return wire::structure ({ { 1, wire::structure ({ { 1, wire::text ("emb") },
                                                    { 2, wire::i64 (100) },
                                                    { 3, wire::i32 (4) },
                                                    { 4, wire::i32 (1) },
                                                    { 5, initializer },
                                                    { 6, optimizer } }) } });
}

struct Target
{
  const char *name;
  std::vector<std::string> argv;
  bool ends_by_signal;
  bool soon_gives_up;      /* closes connections that stall after a short time */
  bool library_transports; /* Debian's framed transport and binary protocol */
  bool encrypts;           /* on request; the server has --tls-cert */
  Victim victim;
};

const std::vector<Target> &
targets ()
{
  static const std::vector<Target> all = {
    { "GeneratedCodeInAHost",
      { "tests/integration/host/fleet_host", "--hardened", "--stall-ms=300" },
      false,
      true,
      false,
      false,
      { "Journal", "echo", journal_arguments (), "echo", journal_arguments (), 1, 2, 3 } },
    { "OnTheLibrarysTransports",
      { "tests/integration/host/fleet_host", "--hardened-processor" },
      false,
      false,
      true,
      false,
      { "Journal", "echo", journal_arguments (), "echo", journal_arguments (), 1, 2, 3 } },
    { "OurServer",
      { "tests/integration/host/fleet_host", "--own-server", "--stall-ms=300" },
      false,
      true,
      false,
      true,
      { "ParameterServer", "average_gradient", gradient_arguments (), "reset_state",
        wire::structure ({}), 4, 0, 0 } },
    { "ThriftpsServer",
      { "plugin/app/thriftps_server", "--listen=127.0.0.1:0", "--default-service=ParameterServer",
        "--log-level=error" },
      true,
      false,
      false,
      false,
      { "ParameterServer", "average_gradient", gradient_arguments (), "reset_state",
        wire::structure ({}), 4, 0, 0 } },
    { "EmbeddingTables",
      { "plugin/app/thriftps_server", "--listen=127.0.0.1:0", "--default-service=EmbeddingTable",
        "--max-table-mib=8", "--log-level=error", "--tls=allowed" },
      true,
      false,
      false,
      true,
      { "EmbeddingTable", "create_table", create_table_arguments (), "list_tables",
        wire::structure ({}), 1, 0, 0 } },
  };
  return all;
}

/* The processes, which must survive all attacks. */
std::map<std::string, std::unique_ptr<Process>> &
processes ()
{
  static std::map<std::string, std::unique_ptr<Process>> all;
  return all;
}

/* Starts a target. A server reads its certificate at its start. */
std::unique_ptr<Process>
start (const Target &target)
{
  const char *folder = getenv ("TEST_TMPDIR");
  std::string file = std::string (folder != nullptr ? folder : "/tmp") + "/certificate-"
                     + std::to_string (getpid ());
  std::vector<std::string> argv = target.argv;
  if (target.encrypts)
    {
      thriftps_test::Authority ("authority").Issue (file);
      argv.push_back ("--tls-cert=" + file);
    }
  auto process = std::make_unique<Process> (argv, target.ends_by_signal);
  unlink (file.c_str ());
  return process;
}

Process &
process_of (const Target &target)
{
  auto &process = processes ()[target.name];
  if (process == nullptr)
    process = start (target);
  return *process;
}

/* ---- invariants ---------------------------------------------------------------------------- */

bool
is_success (const Answer &answer)
{
  /* Field 1 of a result holds the declared exception. */
  return answer.message && answer.message->kind == wire::Reply
         && answer.message->body.find (1) == nullptr;
}

/* Makes a well-formed call on its own connection. */
void
expect_served (Peer *peer, const Form &form, const Victim &victim)
{
  Answer answer = peer->call (hostile::name_of (form, victim, victim.probe), victim.probe_arguments,
                              5);
  EXPECT_TRUE (is_success (answer)) << (answer.timed_out ? "timed out"
                                        : answer.closed  ? "closed"
                                                         : answer.why);
  if (answer.message)
    {
      EXPECT_EQ (answer.message->seqid, 5);
    }
}

/* A reply to an attack must be short and contain only known text, never memory of the server. */
void
expect_harmless (const Form &form, const Answer &answer)
{
  ASSERT_FALSE (answer.malformed) << answer.why;
  if (answer.message)
    {
      EXPECT_LE (wire::encode (form.protocol, *answer.message).size (), kMaxErrorBytes);
    }
}

/* Returns the next message as text, or a text for the end of the connection. */
std::string
to_text (const Form &form, const Answer &answer)
{
  return answer.message ? wire::encode (form.protocol, *answer.message) : "the end";
}

/* Checks the outcome of an attack. Stores the server's replies in `*told`. */
void
expect_outcome (const Attack &attack, const Form &form, const Victim &victim, Peer *peer,
                std::vector<std::string> *told)
{
  Answer answer = peer->receive ();
  expect_harmless (form, answer);
  ASSERT_FALSE (answer.timed_out) << "neither answered nor closed";
  told->push_back (to_text (form, answer));
  switch (attack.outcome)
    {
    case Outcome::Refused:
      /* Some attacks contain several messages. Replies are allowed, but none may report success. */
      while (answer.message && !answer.closed)
        {
          EXPECT_FALSE (is_success (answer));
          answer = peer->receive ();
          expect_harmless (form, answer);
          ASSERT_FALSE (answer.timed_out);
          told->push_back (to_text (form, answer));
        }
      EXPECT_TRUE (answer.closed);
      break;
    case Outcome::Answered:
      EXPECT_TRUE (answer.message);
      expect_served (peer, form, victim);
      break;
    case Outcome::Stalls:
      EXPECT_TRUE (answer.closed);
      break;
    case Outcome::Either:
      break;
    }
}

class Watch
{
public:
  explicit Watch (Process *process)
      : process_ (process), bytes_ (process->resident_bytes ()), seconds_ (process->cpu_seconds ())
  {
  }

  void
  expect_calm (double max_cpu_seconds = kMaxCpuSeconds)
  {
    ASSERT_TRUE (process_->is_alive ());
    EXPECT_LE (process_->cpu_seconds () - seconds_, max_cpu_seconds);
    if (!kSanitized)
      {
        EXPECT_LE (process_->resident_bytes (), bytes_ + kMaxGrowth);
      }
  }

private:
  Process *process_;
  size_t bytes_;
  double seconds_;
};

/* ---- the table of attacks ------------------------------------------------------------------- */

struct Case
{
  const Target *target;
  Form form;
  const Attack *attack;
  Transport transport;
};

std::string
form_name (const Form &form)
{
  return std::string (form.framed ? "Framed" : "Unframed")
         + (form.protocol == Protocol::Binary ? "Binary" : "Compact")
         + (form.multiplexed ? "Multiplexed" : "Plain");
}

std::string
target_name (const Target &target, Transport transport)
{
  return std::string (target.name) + (transport == Transport::Tls ? "OverTls" : "");
}

std::string
case_name (const Case &one)
{
  return target_name (*one.target, one.transport) + "_" + form_name (one.form) + "_"
         + one.attack->name;
}

std::ostream &
operator<< (std::ostream &out, const Case &one)
{
  return out << case_name (one);
}

std::vector<Form>
forms ()
{
  std::vector<Form> all;
  for (Protocol protocol : { Protocol::Binary, Protocol::Compact })
    for (bool framed : { true, false })
      for (bool multiplexed : { true, false })
        all.push_back ({ protocol, framed, multiplexed });
  return all;
}

/* Returns true if the target supports this form. */
bool
speaks (const Target &target, const Form &form)
{
  return !target.library_transports || (form.framed && form.protocol == Protocol::Binary);
}

/* Returns the requirements of attacks that the target meets. */
unsigned
needs_of (const Form &form, const Target &target)
{
  return (form.framed ? hostile::FRAMES : 0u)
         | (form.protocol == Protocol::Binary ? hostile::BINARY : hostile::COMPACT)
         | (target.victim.list_field != 0 ? hostile::MEMBERS : 0u)
         | (target.library_transports ? 0u : hostile::OUR_TRANSPORT);
}

bool
applies (const Attack &attack, const Form &form, const Target &target)
{
  return speaks (target, form) && (attack.needs & ~needs_of (form, target)) == 0;
}

std::vector<Transport>
transports_of (const Target &target)
{
  if (target.encrypts)
    return { Transport::Plain, Transport::Tls };
  return { Transport::Plain };
}

/* On encrypted connections only the multiplexed forms are tested, because the names of methods do
 * not depend on the encryption. */
std::vector<Case>
cases ()
{
  std::vector<Case> all;
  for (const Target &target : targets ())
    for (Transport transport : transports_of (target))
      for (const Form &form : forms ())
        for (const Attack &attack : hostile::attacks ())
          if (applies (attack, form, target) && (form.multiplexed || transport == Transport::Plain))
            all.push_back ({ &target, form, &attack, transport });
  return all;
}

class Hostile : public testing::TestWithParam<Case>
{
protected:
  /* Runs the attack, and returns the server's replies to the attacker. */
  std::vector<std::string>
  attack_over (Transport transport)
  {
    const Target &target = *GetParam ().target;
    const Form &form = GetParam ().form;
    const Attack &attack = *GetParam ().attack;
    Process &process = process_of (target);
    std::vector<std::string> told;
    Peer bystander (process.address (), form.protocol, form.framed);
    expect_served (&bystander, form, target.victim);

    Watch watch (&process);
    Peer attacker (process.address (), form.protocol, form.framed, transport);
    attacker.send (attack.bytes (form, target.victim));
    expect_served (&bystander, form, target.victim);
    if (attack.outcome == Outcome::Refused
        || (attack.outcome == Outcome::Stalls && !target.soon_gives_up))
      attacker.end_of_sending ();
    expect_outcome (attack, form, target.victim, &attacker, &told);
    expect_served (&bystander, form, target.victim);
    watch.expect_calm ();
    return told;
  }
};

/* Over an encrypted connection, the replies must be the same, word for word. */
TEST_P (Hostile, HarmsNeitherTheServerNorOtherClients)
{
  std::vector<std::string> told = attack_over (GetParam ().transport);
  if (GetParam ().transport != Transport::Plain && GetParam ().attack->outcome != Outcome::Stalls)
    {
      EXPECT_EQ (attack_over (Transport::Plain), told);
    }
}

INSTANTIATE_TEST_SUITE_P (Table, Hostile, testing::ValuesIn (cases ()),
                          [] (const auto &one) { return case_name (one.param); });

/* ---- attacks that are not single messages -------------------------------------------------- */

struct Place
{
  const Target *target;
  Form form;
  Transport transport;
};

std::string
place_name (const Place &place)
{
  return target_name (*place.target, place.transport) + "_" + form_name (place.form);
}

std::ostream &
operator<< (std::ostream &out, const Place &place)
{
  return out << place_name (place);
}

std::vector<Place>
places ()
{
  std::vector<Place> all;
  for (const Target &target : targets ())
    for (Transport transport : transports_of (target))
      for (const Form &form : forms ())
        if (form.multiplexed && !target.library_transports)
          all.push_back ({ &target, form, transport });
  return all;
}

class HostileCrowd : public testing::TestWithParam<Place>
{
protected:
  HostileCrowd ()
      : target_ (*GetParam ().target), form_ (GetParam ().form), process_ (process_of (target_))
  {
  }

  std::unique_ptr<Peer>
  connect ()
  {
    return std::make_unique<Peer> (process_.address (), form_.protocol, form_.framed,
                                   GetParam ().transport);
  }

  std::string
  good_call ()
  {
    return hostile::call (form_, target_.victim, target_.victim.arguments);
  }

  /* Encrypted connections need a handshake, so the test makes fewer of them. */
  int
  few_over_tls (int n) const
  {
    return GetParam ().transport == Transport::Tls ? n / 10 : n;
  }

  /* Sends bytes, shuts down the sending direction, and reads all replies. */
  void
  send_and_expect_harmless (const std::string &bytes)
  {
    auto peer = connect ();
    peer->send (bytes);
    peer->end_of_sending ();
    for (;;)
      {
        Answer answer = peer->receive ();
        expect_harmless (form_, answer);
        ASSERT_FALSE (answer.timed_out);
        if (answer.closed || answer.malformed)
          return;
      }
  }

  const Target &target_;
  const Form form_;
  Process &process_;
};

INSTANTIATE_TEST_SUITE_P (All, HostileCrowd, testing::ValuesIn (places ()),
                          [] (const auto &one) { return place_name (one.param); });

TEST_P (HostileCrowd, EveryPrefixOfACall)
{
  auto bystander = connect ();
  Watch watch (&process_);
  std::string call = good_call ();
  for (size_t n = 0; n < call.size (); n++)
    send_and_expect_harmless (call.substr (0, n));
  expect_served (bystander.get (), form_, target_.victim);
  watch.expect_calm ();
}

TEST_P (HostileCrowd, RandomBytes)
{
  std::mt19937 random (20240607);
  auto bystander = connect ();
  Watch watch (&process_);
  for (int i = 0; i < few_over_tls (kSanitized ? 100 : 500); i++)
    {
      std::string bytes (random () % 300, '\0');
      for (char &byte : bytes)
        byte = static_cast<char> (random ());
      /* Half of the byte sequences pass the first check. */
      if (i % 2 == 0)
        {
          if (form_.framed)
            bytes = wire::frame (good_call ().substr (4, 10) + bytes);
          else
            bytes = good_call ().substr (0, 10) + bytes;
        }
      send_and_expect_harmless (bytes);
      if (HasFatalFailure ())
        FAIL () << "after random bytes " << i;
    }
  expect_served (bystander.get (), form_, target_.victim);
  watch.expect_calm ();
}

TEST_P (HostileCrowd, MutatedCalls)
{
  std::mt19937 random (4711);
  auto bystander = connect ();
  Watch watch (&process_);
  for (int i = 0; i < few_over_tls (kSanitized ? 200 : 2000); i++)
    {
      std::string call = good_call ();
      size_t n_changes = 1 + random () % 4;
      for (size_t j = 0; j < n_changes; j++)
        {
          size_t place = form_.framed ? 4 + random () % (call.size () - 4)
                                      : random () % call.size ();
          switch (random () % 4)
            {
            case 0:
              call[place] = static_cast<char> (random ());
              break;
            case 1:
              call[place] = static_cast<char> (call[place] ^ (1 << random () % 8));
              break;
            case 2:
              call.insert (place, 1 + random () % 3, static_cast<char> (random ()));
              break;
            default:
              call.erase (place, 1);
            }
        }
      /* Half of the calls get a correct frame length. */
      if (form_.framed && i % 2 == 0)
        call = wire::frame (call.substr (4));
      send_and_expect_harmless (call);
      if (HasFatalFailure ())
        FAIL () << "after mutation " << i;
    }
  expect_served (bystander.get (), form_, target_.victim);
  watch.expect_calm (2 * kMaxCpuSeconds);
}

TEST_P (HostileCrowd, CallsInPiecesOfOneByteAreServed)
{
  auto peer = connect ();
  std::string call = good_call ();
  expect_served (peer.get (), form_, target_.victim);
  for (char byte : call)
    ASSERT_TRUE (peer->send (std::string (1, byte)));
  EXPECT_TRUE (is_success (peer->receive ()));
}

TEST_P (HostileCrowd, ManyStalledConnectionsDisturbNoOtherClient)
{
  std::vector<std::unique_ptr<Peer>> stalled;
  auto bystander = connect ();
  Watch watch (&process_);
  for (int i = 0; i < 100; i++)
    {
      stalled.push_back (connect ());
      stalled.back ()->send (good_call ().substr (0, 10));
    }
  expect_served (bystander.get (), form_, target_.victim);
  for (auto &peer : stalled)
    if (target_.soon_gives_up)
      {
        EXPECT_TRUE (peer->wait_for_end ());
      }
  watch.expect_calm ();
}

/* The client sends a large request and closes before the reply. The failed write of the reply must
 * not terminate the process. */
TEST_P (HostileCrowd, ClosingAfterALargeRequestEndsNoServer)
{
  Value arguments = target_.victim.arguments;
  std::string large (8 << 20, 'x');
  arguments.fields.emplace_back (101, wire::text (large));
  if (target_.victim.binary_field != 0)
    arguments.fields[0].second.fields[1].second = wire::text (large);
  std::string call = hostile::call (form_, target_.victim, arguments);
  auto bystander = connect ();
  for (int i = 0; i < 5; i++)
    {
      auto peer = connect ();
      peer->send (call);
      peer->reset ();
    }
  expect_served (bystander.get (), form_, target_.victim);
  EXPECT_TRUE (process_.is_alive ());
}

/* The client does not read its replies. The server must stop reading or close the connection, and
 * must not queue replies without a limit. */
TEST_P (HostileCrowd, UnreadRepliesTakeBoundedMemory)
{
  if (target_.victim.binary_field == 0)
    GTEST_SKIP () << "answers of this service are small; see the server's own tests";
  Value arguments = target_.victim.arguments;
  arguments.fields[0].second.fields[1].second = wire::text (std::string (1 << 20, 'x'));
  std::string call = hostile::call (form_, target_.victim, arguments);
  auto bystander = connect ();
  size_t before = process_.resident_bytes ();
  auto peer = connect ();
  for (int i = 0; i < 200 && peer->send (call); i++)
    ;
  expect_served (bystander.get (), form_, target_.victim);
  if (!kSanitized)
    {
      EXPECT_LE (process_.resident_bytes (), before + (64u << 20));
    }
}

/* Generated code abandons these calls after it has read a part of them. */
TEST_P (HostileCrowd, FailingInTheMiddleOfACallLeaksNothing)
{
  if (target_.victim.binary_field == 0)
    GTEST_SKIP () << "no generated code here";
  const int n_calls = kSanitized ? 20 : 300;
  Value nameless = wire::structure ({ { 2, wire::text (std::string (200000, 'x')) } });
  Value wrong = wire::structure ({ { 1, wire::text ("x") },
                                   { 2, wire::text (std::string (200000, 'x')) },
                                   { 3, wire::list (wire::Byte, { wire::byte (1) }) } });
  Value good = wire::structure ({ { 1, wire::text ("x") } });
  Victim count = target_.victim;
  count.method = "count";
  auto bystander = connect ();
  size_t before = 0;
  for (int i = 0; i < n_calls; i++)
    for (const Value &bad : { nameless, wrong })
      {
        Value arguments = wire::structure (
            { { 1, wire::list (wire::Struct, { good, bad, good }) },
              { 2, wire::map (wire::String, wire::Struct,
                              { wire::text (std::string (200000, 'k')), bad }) } });
        auto peer = connect ();
        peer->send (hostile::call (form_, count, arguments));
        Answer answer = peer->receive ();
        EXPECT_FALSE (is_success (answer));
        expect_harmless (form_, answer);
        if (i == n_calls / 10)
          before = process_.resident_bytes ();
      }
  expect_served (bystander.get (), form_, target_.victim);
  if (!kSanitized)
    {
      EXPECT_LE (process_.resident_bytes (), before + (8u << 20)); /* the keys alone take 108 MB */
    }
}

/* Runs last, because the exit codes include the reports of the sanitizers. */
class Survivors : public testing::Environment
{
public:
  void
  TearDown () override
  {
    for (auto &entry : processes ())
      {
        EXPECT_TRUE (entry.second->is_alive ()) << entry.first;
        EXPECT_EQ (entry.second->end (), 0) << entry.first;
      }
    processes ().clear ();
  }
};

const testing::Environment *const kSurvivors = testing::AddGlobalTestEnvironment (new Survivors);

} // namespace
