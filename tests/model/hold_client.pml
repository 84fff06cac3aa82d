/*
 * hold_client.pml - the clients' threads: a reader hits the shared index, an asker goes by
 * message, a writer puts. t is the thread, i the slot, s0 its state before the hold, f its
 * fields, n what was begun.
 */
inline send(s, m, x) {          /* inside an atomic; a tell that finds the socket full is dropped */
#ifdef LIVE
  if
  :: conn[s] && s == 0 && nfull(q0) -> q0 ! m, x
  :: conn[s] && s == 1 && nfull(q1) -> q1 ! m, x
  :: else
  fi
#else
  if
  :: conn[s] && s == 0 -> RULE(RULE_QUEUE, len(q0) < QLEN); q0 ! m, x
  :: conn[s] && s == 1 -> RULE(RULE_QUEUE, len(q1) < QLEN); q1 ! m, x
  :: else
  fi
#endif
}

inline take() {
#ifdef MUT_HOLD_PLAIN
  if
  :: t == 2 -> d_step { (rbn == 0); rba = CNT(1,i); rbv = M[CNT(1,i)] + 1; rbn = 1 }
  :: t != 2 -> d_step { M[CNT(sess(t),i)]++ }
  fi
#else
  d_step { M[CNT(sess(t),i)]++ }
#endif
}

inline drop_count() {
#ifdef MUT_HOLD_PLAIN
  if
  :: t == 2 -> d_step { (rbn == 0); M[CNT(1,i)]--; last = (M[CNT(1,i)] == 0) }
  :: t != 2 -> d_step { M[CNT(sess(t),i)]--; last = (M[CNT(sess(t),i)] == 0) }
  fi
#else
  d_step { M[CNT(sess(t),i)]--; last = (M[CNT(sess(t),i)] == 0) }
#endif
}

inline tell() { if :: w -> send(sess(t), TELL, i) :: else fi; w = 0; i = 0 }

inline give(loud) {
#ifdef MUT_WANT_FIRST
  w = M[WANT(i)];
  drop_count();
  atomic { w = w && last && loud; last = 0; tell() }
#else
  drop_count();
#ifdef FINE
  d_step { w = last && loud && M[WANT(i)]; last = 0 };
  atomic { tell() }
#else
  atomic { w = last && loud && M[WANT(i)]; last = 0; tell() }
#endif
#endif
}

#ifdef MUT_SERVE_WRITING
#define USABLE(x) (kindof(x) == READY || kindof(x) == WRITING)
#else
#define USABLE(x) (kindof(x) == READY)
#endif
#ifdef MUT_RECHECK_KIND
#define SAME (kindof(M[ST(i)]) == READY)
#else
#define SAME (M[ST(i)] == s0)
#endif
#ifdef MUT_QUIET_FAIL
#define FAILED 0
#else
#define FAILED 1
#endif

inline try() {                  /* s0 was read and is usable: ok says whether the hold is valid, f has the fields then */
#ifdef FIELDS_FIRST
  f = M[FLD(i)];
#endif
#ifdef MUT_CHECK_THEN_HOLD      /* looks at the state a second time before, not after, taking the hold */
  ok = SAME;
  take();
  if :: ok -> f = M[FLD(i)] :: else fi
#else
  take();
#ifdef MUT_NO_RECHECK
  ok = 1;
  f = M[FLD(i)]
#else
#ifdef FIELDS_FIRST
  d_step { ok = SAME; s0 = 0 }
#else
#ifdef FINE
  d_step { ok = SAME; s0 = 0 };
  if :: ok -> f = M[FLD(i)] :: else fi
#else
  d_step { ok = SAME; s0 = 0; if :: ok -> f = M[FLD(i)] :: else fi }
#endif
#endif
#endif
#endif
}

inline read() { d_step { RULE(RULE_BYTES, M[MEM(offof(f))] == serof(f) && serof(f) != 0); f = 0; ok = 0; s0 = 0 } }

inline use() {                  /* after try(): read and give, or give */
  if
  :: ok -> read(); give(1)
  :: else -> f = 0; s0 = 0; give(FAILED)
  fi
}

inline hit() {
  if
  :: USABLE(s0) -> try(); use()
  :: else -> d_step { s0 = 0; i = 0 }
  fi
}

#ifdef LIVE
#define NEXT(k) d_step { i = k; s0 = M[ST(k)] }
#else
#define NEXT(k) d_step { n < NACQ -> n++; i = k; s0 = M[ST(k)] }
#endif

proctype reader(byte t) {
  byte i, s0, f, n;
  bool w, last, ok;
again:
  {
    do
    :: NEXT(0); hit()
#if NSLOT > 1
    :: NEXT(1); hit()
#endif
#ifdef LIVE
    :: break                    /* a reader may stop for good when it holds nothing */
#else
    :: n == NACQ -> break
#endif
    od;
end1:
    (false)
  } unless { killed[sess(t)] };
  d_step { dead[t] = 1; i = 0; s0 = 0; f = 0; n = 0; w = 0; last = 0; ok = 0;
#ifdef MUT_HOLD_PLAIN
    if :: t == 2 && rbn > 0 -> M[rba] = rbv; rbn = 0; rba = 0; rbv = 0 :: else fi
#endif
  };
end2:
  (dead[t] == 0);
  goto again
}

#ifdef PIN
inline unpin() { atomic { send(sess(t), UNPIN, i) } }

inline answered() {             /* the answer named slot i */
#ifdef MUT_GRANT                /* takes the daemon's pin for a hold */
  f = M[FLD(i)];
  read();
  unpin(); i = 0
#else
#ifdef MUT_UNPIN_FIRST
  unpin();
#endif
  s0 = M[ST(i)];
  if
  :: USABLE(s0) ->
     try();
     owed = 0;
#ifndef MUT_UNPIN_FIRST
     unpin();
#endif
     use()
  :: else ->                    /* condemned since, or not yet visible: asks again */
     d_step { owed = 0; s0 = 0 };
#ifndef MUT_UNPIN_FIRST
     unpin();
#endif
     i = 0
  fi
#endif
}

proctype asker(byte t) {
  byte i, s0, f, n;
  bool w, last, ok;
again:
  {
    do
    :: atomic { n < NACQ && conn[sess(t)] -> n++; asking = 1; send(sess(t), ASK, 0) };
       d_step { pinned ? i -> asking = 0 };
       if
       :: i == 0
       :: i > 0 -> i--; answered()
       :: d_step { i > 0 -> i--; owed = 0 };    /* the caller gave up before: the library unpins */
#ifndef MUT_LATE_ANSWER
          unpin();
#endif
          i = 0
       fi
    :: n == NACQ -> break
    od;
end1:
    (false)
  } unless { killed[sess(t)] };
  d_step { dead[t] = 1; i = 0; s0 = 0; f = 0; n = 0; w = 0; last = 0; ok = 0; asking = 0;
    if :: len(pinned) > 0 -> pinned ? i; i = 0 :: len(pinned) == 0 fi };
end2:
  (dead[t] == 0);
  goto again
}
#endif

#ifdef PUT
proctype writer() {
  byte n, f, x;
again:
  {
    do
    :: atomic { n < NPUT && conn[1] -> n++; putting = 1; send(1, START, 0) };
       d_step { told ? own, f -> putting = 0 };
       if
       :: own == 0              /* no room, or the daemon is gone */
       :: own != 0 ->
          M[MEM(offof(f))] = serof(f);          /* the bytes */
          f = 0;
          if
          :: do                 /* seal, again after each lost connection until answered */
             :: atomic { conn[1] -> putting = 1; send(1, SEAL, own) };
                d_step { told ? x, f -> putting = 0; f = 0 };
                if :: x != 0 -> break :: x == 0 fi
             od;
             atomic { x = 0; own = 0 }
          :: atomic { send(1, ABORT, own); own = 0 }
          fi
       fi
    :: n == NPUT -> break
    od;
end1:
    (false)
  } unless { killed[1] };
  d_step { dead[2] = 1; n = 0; f = 0; x = 0; own = 0; putting = 0;
    if :: len(told) > 0 -> told ? x, f; x = 0; f = 0 :: len(told) == 0 fi };
end2:
  (dead[2] == 0);
  goto again
}
#endif
