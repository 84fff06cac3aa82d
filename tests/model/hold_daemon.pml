/*
 * hold_daemon.pml - the daemon's loop: operations at any time, messages, the end of a
 * client, a lost connection, the start and the re-attaching of clients.
 */
/* the end of a client */
inline clearholds(s, i) {       /* lock and: needs an empty store buffer */
  d_step { EMPTY -> cl = (M[CNT(s,i)] != 0); M[CNT(s,i)] = 0 }
}

#ifdef MUT_DEATH_NOWAKE
#define WAKE_AFTER_DEATH(i) if :: cl -> recheck(i) :: else fi
#else
#define WAKE_AFTER_DEATH(i) recheck(i)
#endif
#if defined(PUT) && !defined(MUT_WRITER_LEAK)
#define DROP_WRITING(s, i) if :: s == 1 && pk[i] == WRITING && pw[i] -> discard(i) :: else fi
#else
#define DROP_WRITING(s, i) skip
#endif

inline drain(s) {               /* inside a d_step: what the connection still had is void */
  if
  :: s == 0 -> do :: q0 ? m, x :: empty(q0) -> break od
  :: s == 1 -> do :: q1 ? m, x :: empty(q1) -> break od
  fi;
  m = 0; x = 0
}

inline forget(s) {              /* gone: its holds, pins and open puts end, and all that waits is looked at */
#ifdef PIN
  drop_pins(s);
#endif
  clearholds(s, 0);
  WAKE_AFTER_DEATH(0);
  DROP_WRITING(s, 0);
#if NSLOT > 1
  clearholds(s, 1);
  WAKE_AFTER_DEATH(1);
  DROP_WRITING(s, 1);
#endif
  cl = 0
}

inline reborn(s) {              /* a new client under the same id */
  d_step {
    drain(s);
    killed[s] = 0; conn[s] = 1;
#if CLOSES > 0
    closed[s] = 0;
#endif
    if :: s == 0 -> dead[0] = 0; dead[1] = ONLY :: else -> dead[2] = 0 fi
  }
}

inline death(s) {
#ifdef MUT_ID_REUSE
  reborn(s);
  forget(s)
#else
  forget(s);
  reborn(s)
#endif
}

#if CLOSES > 0
inline eof(s) {                 /* the socket closed, the process lives: only its pins end */
  d_step { closed[s] = 0; drain(s) };
#ifdef MUT_CLOSE_CLEARS
  forget(s)
#else
#ifdef MUT_CLOSE_DISCARDS
  DROP_WRITING(s, 0);
#endif
#ifdef PIN
  drop_pins(s);
  recheck(0);
#if NSLOT > 1
  recheck(1)
#endif
#endif
#endif
}
#endif

/* start and re-attach */
inline load(i) {                /* inside a d_step */
  pk[i] = kindof(M[ST(i)]); pl[i] = lifeof(M[ST(i)]); po[i] = offof(M[FLD(i)]); ps[i] = serof(M[FLD(i)]);
#ifdef PUT
  if
  :: pk[i] == WRITING -> pw[i] = wrof(M[FLD(i)]); sealed[i] = sealof(M[FLD(i)])
  :: else
  fi;
#endif
  if
  :: pk[i] != FREE -> used[po[i]] = 1
  :: else -> po[i] = 0; ps[i] = 0
  fi
}

inline recover_writing(i) {
#ifdef PUT
  if
#ifdef MUT_DROP_SEALED
  :: sealed[i] -> sealed[i] = 0; discard(i)
#else
#ifdef MUT_RECOVER_BLIND
  :: sealed[i] -> d_step { pw[i] = 0; sealed[i] = 0 }; ready(i)
#else
  :: sealed[i] -> complete(i)
#endif
#endif
#ifdef MUT_RESTART_DISCARD
  :: !sealed[i] -> discard(i)
#else
  :: !sealed[i] && pw[i]        /* reserved until its writer seals, aborts, does not claim it, or is gone */
  :: !sealed[i] && !pw[i] -> discard(i)
#endif
  fi
#else
  discard(i)
#endif
}

inline recover(i) {
  if
  :: pk[i] == WRITING -> recover_writing(i)
  :: pk[i] == READY -> d_step { ROOM -> put(WANT(i), 0) }
  :: pk[i] == CONDEMNED ->
#ifdef MUT_RESTART_NOARM
     skip
#else
     arm(i)
#endif
  :: else
  fi
}

inline recover_all() {
  d_step {
    load(0);
#if NSLOT > 1
    load(1)
#endif
  };
  recover(0);
#if NSLOT > 1
  recover(1);
  if
  :: pk[0] == READY && pk[1] == READY && ps[0] == ps[1] -> condemn(0)   /* a move was under way */
  :: else
  fi
#endif
}

#ifdef MUT_UNCLAIMED_KEPT
#define DROP_UNCLAIMED(s, i) skip
#else
#define DROP_UNCLAIMED(s, i) if :: s == 1 && pk[i] == WRITING && pw[i] && !IS_OPEN(i, x) -> discard(i) :: else fi
#endif

inline reattach(s) {            /* its hello names its open put; answers of the old connection are void from here */
  d_step {
    conn[s] = 1;
#if defined(PIN) && !defined(MUT_STALE_ANSWER)
    if :: s == ASKS && len(pinned) > 0 -> pinned ? x; x = 0; pinned ! 0 :: s != ASKS || len(pinned) == 0 fi;
#endif
#ifdef PUT
#ifndef MUT_STALE_ANSWER
    if :: s == 1 && len(told) > 0 -> told ? m, x; m = 0; x = 0; told ! 0, 0 :: s != 1 || len(told) == 0 fi;
#endif
    if :: s == 1 -> x = own :: else fi
#endif
  };
#ifdef PUT
  DROP_UNCLAIMED(s, 0);
#if NSLOT > 1
  DROP_UNCLAIMED(s, 1);
#endif
  x = 0;
#endif
#ifndef MUT_NO_REATTACH
  recheck(0);
#if NSLOT > 1
  recheck(1)
#endif
#endif
}

#if CLOSES > 0
#define AWAY(s) (!conn[s] && !killed[s] && !closed[s])
#else
#define AWAY(s) (!conn[s] && !killed[s])
#endif
#ifdef LIVE
#define BEGIN(cond) d_step { cond -> skip }
#define NEXTSER(i) ps[i] = 1
#else
#define BEGIN(cond) d_step { ops < OPS && cond -> ops++ }
#define NEXTSER(i) d_step { nser++; ps[i] = nser }
#endif
#if defined(PUT) && NSLOT > 1   /* one key: the daemon loads it only while it is not there */
#define ABSENT(i) (pk[i] == FREE && pk[1-(i)] != READY)
#else
#define ABSENT(i) (pk[i] == FREE)
#endif

inline do_publish(i) { d_step { PICK(r); used[r] = 1; NEXTSER(i) }; publish(i, r); r = 0 }
inline do_move(i)    { d_step { PICK(r); used[r] = 1 }; move(i, r); r = 0 }

#ifdef KEEP
#define EVICTS(i)
#else
#define EVICTS(i) :: BEGIN(pk[i] == READY && !parked[i]); evict(i)
#endif
#if defined(KEEP) || defined(NOREMOVE)
#define REMOVES(i)
#else
#define REMOVES(i) :: BEGIN(pk[i] == READY); condemn(i)
#endif
#ifdef MOVE
#define MOVES(i) :: BEGIN(pk[i] == READY && !parked[i] && pk[1-(i)] == FREE && ANYREG); do_move(i)
#else
#define MOVES(i)
#endif

#define OPSON(i) \
  :: BEGIN(ABSENT(i) && ANYREG); do_publish(i) \
  EVICTS(i) \
  REMOVES(i) \
  MOVES(i)

inline at_rest() {              /* nothing can move: every wake-up must have come */
  do
  :: x < NSLOT ->
     RULE(RULE_PARKED, !parked[x]);
     RULE(RULE_KIND, pk[x] == FREE || pk[x] == READY);
     RULE(RULE_HOLD, M[CNT(0,x)] == 0 && M[CNT(1,x)] == 0);
#ifdef PIN
     RULE(RULE_PIN, pin[x] == 0);
     RULE(RULE_WAIT, !asking);
#endif
     x++
  :: else -> break
  od;
#ifdef PUT
  RULE(RULE_WAIT, own == 0 && !putting);
#endif
#ifdef KEEP
  RULE(RULE_LOST, pk[0] == READY || pk[1] == READY);
#endif
  x = 0
}

inline run_clients() {
#if defined(PIN) && ASKER == 0
  run asker(0);
#else
  run reader(0);
#endif
#ifdef ONE_THREAD
  dead[1] = 1;
#else
#if defined(PIN) && ASKER == 1
  run asker(1);
#else
  run reader(1);
#endif
#endif
#if defined(PUT)
  run writer()
#elif defined(PIN)
  run asker(2)
#else
  run reader(2)
#endif
}

active proctype daemon() {
  byte m, r, x;
  bool cl, h;
  d_step {
    conn[0] = 1; conn[1] = 1;
#if !defined(PUT) || defined(REPLACE) || NSLOT > 1
    nser = 1;                   /* slot 0 starts READY with object 1 in region 0 */
    M[MEM(0)] = 1; M[FLD(0)] = F(0,0,0,1); M[ST(0)] = W(READY,0)
#endif
  };
  atomic { run_clients() }
again:
  {
    recover_all();
    do
    OPSON(0)
#if NSLOT > 1
    OPSON(1)
#endif
    :: q0 ? m, x -> handle(0)
    :: q1 ? m, x -> handle(1)
#if KILLS > 0
    :: gone(0) -> death(0)
    :: gone(1) -> death(1)
#endif
#if CLOSES > 0
    :: closed[0] -> eof(0)
    :: closed[1] -> eof(1)
#endif
#if CRASHES > 0 || CLOSES > 0
    :: d_step { AWAY(0) -> skip }; reattach(0)
    :: d_step { AWAY(1) -> skip }; reattach(1)
#endif
#ifndef LIVE
    :: timeout -> d_step { at_rest() }; goto done
#endif
    od
  } unless { crash };
  d_step {                      /* kill -9 */
    do :: dbn > 0 -> shift() :: else -> break od;
    crash = 0; h = 0; cl = 0; r = 0;
    hangup(0); drain(0);
    hangup(1); drain(1);
#if CLOSES > 0
    closed[0] = 0; closed[1] = 0;
#endif
    do
    :: x < NSLOT ->
       pk[x] = 0; pl[x] = 0; po[x] = 0; ps[x] = 0; parked[x] = 0;
#ifdef PIN
       pin[x] = 0;
#endif
#ifdef PUT
       pw[x] = 0; sealed[x] = 0;
#endif
       x++
    :: else -> break
    od;
    x = 0;
    do :: x < NREG -> used[x] = 0; x++ :: else -> break od;
    x = 0
  };
  goto again;
done:
  skip
}
