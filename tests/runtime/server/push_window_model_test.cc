/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Push windows compared with a model of the contract. SEEDS=10000 runs more histories. */

#include <algorithm>
#include <cstdlib>
#include <list>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/runtime/server/push_window_fixture.h"

using namespace push_window_test;

namespace {

constexpr gint64 kWindow = 8;
constexpr gint64 kIdleMs = 1000;

/* A push that was applied. */
struct Applied
{
  gint64 sequence, request, lsn, incarnation, time_ms;
  int run = 0;          /* of the client: it may restart its sequence on a later object */
  bool is_lost = false; /* its answer need not be remembered */
  /* it need not be remembered at all, because its client was silent for long, or was forgotten */
  bool may_be_forgotten = false;

  gint64
  answer () const
  {
    return lsn * 7;
  }
};

struct Waiting
{
  gint64 request;
  Ending ending;
};

struct Running
{
  gint64 request, incarnation;
  gint64 told; /* the incarnation that the window was given; 0 = none */
  bool has_digest;
  std::list<Waiting> waiting;
};

struct Client
{
  const char *tenant;
  std::vector<Applied> applied; /* by LSN */
  std::map<gint64, Running> running;
  int run = 0;
  gint64 heard_ms = 0;
  bool has_restarted = false; /* a restart may shorten its silence, because it stops the clock */

  gint64
  last_lsn () const
  {
    return applied.empty () ? 0 : applied.back ().lsn;
  }

  bool
  is_known () const
  {
    return !running.empty ()
           || std::any_of (applied.begin (), applied.end (),
                           [] (const Applied &each) { return !each.may_be_forgotten; });
  }

  /* Returns the last push of this id that was applied to an object of the incarnation, or later. */
  const Applied *
  find (gint64 sequence, gint64 incarnation) const
  {
    for (auto each = applied.rbegin (); each != applied.rend (); ++each)
      if (each->sequence == sequence && each->lsn >= incarnation)
        return &*each;
    return nullptr;
  }

  /* Returns TRUE if later pushes of the same run have moved the window beyond the sequence. */
  bool
  is_below_window (gint64 sequence) const
  {
    return std::any_of (applied.begin (), applied.end (), [&] (const Applied &each) {
      return each.run == run && each.sequence - sequence >= kWindow;
    });
  }

  /* Returns TRUE if a push of this sequence need not be told from one that was applied: the run, or
   * the runs before, have a higher sequence that may be forgotten, and a command after the creation
   * of the object. */
  bool
  may_be_stale (gint64 sequence, gint64 incarnation, bool may_lose) const
  {
    bool is_high[2] = { false, false }, is_late[2] = { false, false };
    /* Without the pushes that may be forgotten, there may be fewer runs. */
    bool is_sure = std::none_of (applied.begin (), applied.end (),
                                 [] (const Applied &each) { return each.may_be_forgotten; });

    for (const Applied &each : applied)
      {
        bool is_now = each.run == run || !is_sure;

        is_high[is_now] |= each.sequence >= sequence
                           && (!is_now || each.is_lost || may_lose
                               || each.sequence - sequence >= kWindow);
        is_late[is_now] |= each.lsn >= incarnation;
      }
    return (is_high[0] && is_late[0]) || (is_high[1] && is_late[1]);
  }

  /* `told`: see Running. */
  void
  add (Applied push, gint64 told)
  {
    if (is_below_window (push.sequence) && told > last_lsn ())
      run++;
    else if (may_be_stale (push.sequence, push.incarnation, false))
      push.is_lost = true; /* the window moved on while the push was running */
    push.run = run;
    applied.push_back (push);
    for (Applied &each : applied)
      each.is_lost |= each.run < run || push.sequence - each.sequence >= kWindow;
  }
};

/* A window and the model. With `is_tight`, the window may lose the answers of clients that are not
 * active, and refuse new names. */
class Histories : public testing::TestWithParam<bool>
{
protected:
  void
  run (unsigned seed)
  {
    random_.seed (seed);
    is_tight_ = GetParam ();
    budget_ = is_tight_ && seed % 2 == 0 ? tps_budget_new (nullptr, "windows", 6000) : nullptr;
    now_ns = 0;
    make_window ();
    for (int i = 0; i < 800 && !HasFailure (); i++)
      {
        SCOPED_TRACE ("seed " + std::to_string (seed) + ", step " + std::to_string (i));
        step ();
      }
    for (auto &[name, client] : clients_)
      while (!client.running.empty ())
        finish (name, client, false);
    tps_push_window_free (window_);
    EXPECT_EQ (tps_budget_get_held (budget_), 0u);
    tps_budget_unref (budget_);
    clients_.clear ();
    log_.clear ();
    objects_ = { 1 };
    lsn_ = 1;
  }

private:
  unsigned
  draw (unsigned n)
  {
    return static_cast<unsigned> (random_ () % n);
  }

  static gint64
  now_ms ()
  {
    return now_ns / 1000000;
  }

  void
  make_window ()
  {
    TpsPushWindowOptions options = {};

    options.window = kWindow;
    options.floor_idle_ns = kIdleMs * 1000000;
    options.get_now_ns = [] { return now_ns; };
    options.budget = budget_;
    if (is_tight_)
      {
        options.max_clients = 1 + draw (4);
        options.max_remembered = 12;
        options.max_floors = 44;
      }
    window_ = tps_push_window_new (&options);
  }

  /* The clients of a tenant have names of their own. */
  std::pair<const std::string, Client> &
  draw_client ()
  {
    static const char *const tenants[] = { nullptr, "a", "b" };
    unsigned i = draw (is_tight_ ? 18 : 6);

    return *clients_.try_emplace ("client" + std::to_string (i), Client { tenants[i % 3] }).first;
  }

  void
  step ()
  {
    auto &[name, client] = draw_client ();
    unsigned kind = draw (1000);

    if (kind < 600)
      push (name, client, draw_sequence (client), draw (10) == 0,
            objects_[draw (objects_.size ())]);
    else if (kind < 900 && !client.running.empty ())
      finish (name, client, draw (10) < 7);
    else if (kind < 950)
      pass (static_cast<gint64> (draw (is_tight_ ? 120 : 12)));
    else if (kind < 970)
      objects_.push_back (++lsn_);
    else if (kind < 975)
      forget (client.tenant, static_cast<gint64> (draw (400)));
    else if (kind < 985)
      restart ();
  }

  /* Mostly one of the next, or a recent one; sometimes a jump, or the sequence begins anew. */
  gint64
  draw_sequence (const Client &client)
  {
    gint64 newest = 0;

    for (const Applied &each : client.applied)
      newest = each.run == client.run ? std::max (newest, each.sequence) : newest;
    switch (draw (20))
      {
      case 0:
        return static_cast<gint64> (draw (5));
      case 1:
        return newest + 1 + static_cast<gint64> (draw (2 * kWindow));
      default:
        return newest + 3 - static_cast<gint64> (draw (6));
      }
  }

  void
  pass (gint64 ms)
  {
    now_ns += ms * 1000000;
    for (auto &[name, client] : clients_)
      if (client.running.empty () && now_ms () - client.heard_ms >= kIdleMs)
        for (Applied &each : client.applied)
          each.may_be_forgotten = true;
  }

  TpsPushRequest
  request_of (const std::string &name, const Client &client, gint64 sequence, gint64 incarnation,
              const TpsPushDigest *digest)
  {
    TpsPushRequest request = {};

    request.client = name.c_str ();
    request.sequence = sequence;
    request.digest = digest;
    request.incarnation = incarnation;
    request.tenant = client.tenant;
    request.ended = note_ending;
    return request;
  }

  /* As callers do: a push without a digest may have to be begun again with it. */
  Verdict
  begin (const std::string &name, Client &client, gint64 sequence, gint64 incarnation,
         bool with_digest, Waiting *waiting)
  {
    TpsPushDigest digest = digest_of (waiting->request);
    TpsPushRequest asked = request_of (name, client, sequence, incarnation,
                                       with_digest ? &digest : nullptr);
    g_autoptr (GError) error = nullptr;

    asked.user_data = &waiting->ending;
    TpsPushVerdict verdict = tps_push_window_begin (window_, &asked, &answer_, &error);
    if (verdict == TPS_PUSH_UNDECIDED)
      {
        EXPECT_FALSE (with_digest);
        asked.digest = &digest;
        verdict = tps_push_window_begin (window_, &asked, &answer_, &error);
        EXPECT_NE (verdict, TPS_PUSH_NEW);
      }
    if (verdict != TPS_PUSH_REFUSED)
      return static_cast<Verdict> (verdict);
    if (error->code == TPS_ERROR_RESOURCE_EXHAUSTED)
      return EXHAUSTED;
    return error->code == TPS_ERROR_STALE ? STALE : DUPLICATE;
  }

  /* As the tables do, which give an incarnation only if the id is known, or as the model does. */
  void
  push (const std::string &name, Client &client, gint64 sequence, gint64 request,
        gint64 incarnation)
  {
    bool with_digest = draw (8) > 0;

    if (draw (2) == 0 || !push_to (name, client, sequence, request, incarnation, 0, with_digest))
      push_to (name, client, sequence, request, incarnation, incarnation, with_digest);
  }

  /* Returns TRUE if the push is new, or runs. */
  bool
  push_to (const std::string &name, Client &client, gint64 sequence, gint64 request,
           gint64 incarnation, gint64 told, bool with_digest)
  {
    std::list<Waiting> waiting { { request, {} } };
    bool was_known = client.is_known ();
    Verdict verdict = begin (name, client, sequence, told, with_digest, &waiting.front ());

    if (verdict == EXHAUSTED)
      {
        EXPECT_TRUE (is_tight_ && (!was_known || budget_ != nullptr)) << name;
        return false;
      }
    check (client, verdict, sequence, request, told);
    if (verdict == RUNNING) /* the address stays */
      client.running[sequence].waiting.splice (client.running[sequence].waiting.end (), waiting);
    heard (client);
    if (verdict == NEW)
      client.running[sequence] = Running { request, incarnation, told, with_digest, {} };
    return verdict == NEW || verdict == RUNNING;
  }

  void
  heard (Client &client)
  {
    client.heard_ms = now_ms ();
    client.has_restarted = false;
  }

  void
  check (Client &client, Verdict verdict, gint64 sequence, gint64 request, gint64 incarnation)
  {
    auto running = client.running.find (sequence);
    const Applied *hit = client.find (sequence, incarnation);
    std::string text = "sequence " + std::to_string (sequence) + " for "
                       + std::to_string (incarnation) + ": " + std::to_string (verdict);

    if (running != client.running.end ())
      {
        bool is_same = !running->second.has_digest || running->second.request == request;

        EXPECT_EQ (verdict, is_same ? RUNNING : DUPLICATE) << text;
        return;
      }
    EXPECT_NE (verdict, RUNNING) << text;
    if (verdict == REPEAT)
      {
        EXPECT_TRUE (hit != nullptr && hit->request == request) << text;
        EXPECT_TRUE (hit == nullptr || answer_ == hit->answer ()) << text;
      }
    if (verdict == DUPLICATE)
      {
        EXPECT_TRUE (hit != nullptr && hit->request != request) << text;
      }
    if (verdict == STALE)
      {
        EXPECT_TRUE (hit != nullptr ? hit->is_lost || is_tight_ || client.is_below_window (sequence)
                                    : client.may_be_stale (sequence, incarnation, is_tight_))
            << text;
      }
    if (verdict == NEW && hit != nullptr)
      {
        EXPECT_TRUE (hit->may_be_forgotten) << text;
        forget (client, hit->lsn);
      }
  }

  void
  finish (const std::string &name, Client &client, bool is_applied)
  {
    auto one = std::next (client.running.begin (), draw (client.running.size ()));
    Running running = std::move (one->second);
    gint64 sequence = one->first;

    client.running.erase (one);
    heard (client);
    if (is_applied)
      {
        TpsPushDigest digest = digest_of (running.request);
        Applied push = { sequence, running.request, ++lsn_, running.incarnation, now_ms () };

        if (!running.has_digest)
          tps_push_window_set_digest (window_, name.c_str (), sequence, &digest);
        tps_push_window_end (window_, name.c_str (), sequence, push.answer (), push.lsn);
        client.add (push, running.told);
        log_.push_back ({ name, push });
      }
    else
      {
        g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, TPS_ERROR_NOT_FOUND, "none");

        tps_push_window_fail (window_, name.c_str (), sequence, error);
      }
    for (const Waiting &each : running.waiting)
      {
        EXPECT_EQ (each.ending.n_calls, 1);
        EXPECT_TRUE (!is_applied || each.request != running.request
                     || each.ending.answer == log_.back ().second.answer ());
        EXPECT_EQ (each.ending.code, !is_applied                       ? TPS_ERROR_NOT_FOUND
                                     : each.request == running.request ? -1
                                                                       : TPS_ERROR_DUPLICATE);
      }
  }

  void
  forget (const char *tenant, gint64 idle_ms)
  {
    guint n_sure = 0, n_possible = 0;
    std::vector<Client *> silent;

    for (auto &[name, client] : clients_)
      if (g_strcmp0 (client.tenant, tenant) == 0 && client.running.empty ()
          && now_ms () - client.heard_ms >= idle_ms)
        {
          if (client.has_restarted) /* the window may think that it was not silent for so long */
            return;
          silent.push_back (&client);
          n_sure += client.is_known ();
          n_possible += !client.applied.empty ();
        }
    guint n = tps_push_window_forget (window_, tenant, idle_ms * 1000000);
    EXPECT_LE (n_sure, n);
    EXPECT_GE (n_possible, n);
    for (Client *client : silent)
      forget (*client, G_MAXINT64);
  }

  /* Removes the pushes that the window has forgotten, also from the log, as if a snapshot had been
   * written: those up to this LSN. */
  void
  forget (Client &client, gint64 lsn)
  {
    std::set<gint64> lsns;

    for (auto each = client.applied.begin (); each != client.applied.end ();)
      if (each->lsn <= lsn)
        {
          lsns.insert (each->lsn);
          each = client.applied.erase (each);
        }
      else
        ++each;
    for (auto each = log_.begin (); each != log_.end ();)
      each = lsns.count (each->second.lsn) > 0 ? log_.erase (each) : std::next (each);
  }

  /* Restores the window from an export, during which pushes continue, and from the log after its
   * begin; or from the whole log. Running pushes are lost. */
  void
  restart ()
  {
    GByteArray *records = g_byte_array_new ();
    bool has_snapshot = draw (3) > 0;
    gint64 snapshot_lsn = has_snapshot ? lsn_ : 0;
    std::map<std::string, gint64> heard_ms;
    gsize n_used = 0;

    for (const auto &[name, client] : clients_)
      heard_ms[name] = client.heard_ms;
    tps_push_export_begin (window_);
    if (draw (2) == 0) /* an export that is cancelled */
      {
        tps_push_export_some (window_, records);
        g_byte_array_set_size (records, 0);
        tps_push_export_begin (window_);
      }
    do
      for (unsigned n = draw (8); n > 0; n--)
        {
          auto &[name, client] = draw_client ();

          push (name, client, draw_sequence (client), 0, objects_[draw (objects_.size ())]);
          if (!client.running.empty ())
            finish (name, client, true);
        }
    while (tps_push_export_some (window_, records));
    for (auto &[name, client] : clients_)
      {
        while (!client.running.empty ())
          finish (name, client, false);
        client.has_restarted = true;
        /* Of the later requests, the log has only those that were applied. */
        client.heard_ms = has_snapshot ? heard_ms[name] : 0;
        for (const Applied &push : client.applied)
          if (push.lsn > snapshot_lsn)
            {
              if (push.time_ms - client.heard_ms >= kIdleMs)
                for (Applied &earlier : client.applied)
                  earlier.may_be_forgotten |= earlier.lsn < push.lsn;
              client.heard_ms = push.time_ms;
            }
      }
    tps_push_window_free (window_);
    make_window ();
    if (has_snapshot)
      {
        ASSERT_TRUE (tps_push_export_read (window_, records->data, records->len, &n_used, nullptr));
        EXPECT_EQ (n_used, records->len);
        tps_push_export_end_read (window_);
      }
    g_byte_array_unref (records);
    pass (0);
    for (const auto &[name, push] : log_)
      if (push.lsn > snapshot_lsn)
        replay (name, push);
  }

  void
  replay (const std::string &name, const Applied &push)
  {
    TpsPushDigest digest = digest_of (push.request);
    TpsPushRequest request = request_of (name, clients_.at (name), push.sequence, push.incarnation,
                                         &digest);

    EXPECT_TRUE (tps_push_window_replay (window_, &request, 1 + push.time_ms, push.answer (),
                                         push.lsn, nullptr));
  }

  std::mt19937 random_;
  bool is_tight_ = false;
  TpsBudget *budget_ = nullptr;
  TpsPushWindow *window_ = nullptr;
  std::map<std::string, Client> clients_;
  std::vector<std::pair<std::string, Applied>> log_;
  std::vector<gint64> objects_ { 1 }; /* their incarnations */
  gint64 lsn_ = 1;
  gint64 answer_ = 0;
};

TEST_P (Histories, keepTheContract)
{
  const char *seeds = g_getenv ("SEEDS");

  for (unsigned seed = 1; seed <= (seeds != nullptr ? strtoul (seeds, nullptr, 10) : 100u); seed++)
    {
      run (seed);
      if (HasFailure ())
        return;
    }
}

INSTANTIATE_TEST_SUITE_P (Limits, Histories, testing::Bool ());

} // namespace
