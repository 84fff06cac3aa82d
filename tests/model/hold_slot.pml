/*
 * hold_slot.pml - what the daemon does with one slot: look, condemn, free, evict, publish,
 * move; and with one message: puts, asks, pins.
 */
inline look(i) {
  h = (M[CNT(0,i)] != 0);
#if defined(PIN) && !defined(MUT_LOOK_NO_PIN)
  d_step { h = h || M[CNT(1,i)] || pin[i] }
#else
  d_step { h = h || M[CNT(1,i)] }
#endif
}

inline release_memory(i) {      /* FREE is stored, then the memory is reused at once */
  d_step { ROOM ->
#ifdef PIN
    RULE(RULE_OWED, owed != (i)+1);
#endif
#ifndef MUT_SAME_LIFE
    pl[i] = (pl[i]+1) % LIVES;
#endif
    used[po[i]] = 0; pk[i] = FREE; ps[i] = 0; parked[i] = 0;
    put(ST(i), W(FREE, pl[i])) };
  d_step { ROOM -> put(MEM(po[i]), 0); po[i] = 0 }
}

inline freeslot(i) {            /* condemned, and a look since then saw nothing */
  d_step { ROOM -> put(WANT(i), 0); h = 0 };
  release_memory(i)
}

inline discard(i) {             /* WRITING, and its writer is out */
#ifdef PUT
  pw[i] = 0;
#endif
  release_memory(i)
}

inline recheck(i) {
  if
  :: pk[i] == CONDEMNED ->
     look(i);
     if :: !h -> freeslot(i) :: else -> h = 0 fi
  :: pk[i] == READY && parked[i] ->
     look(i);
     if :: !h -> d_step { ROOM -> parked[i] = 0; put(WANT(i), 0) } :: else -> h = 0 fi
  :: else
  fi
}

inline arm(i) {                 /* ask, then look */
#ifdef MUT_LOOK_THEN_ASK
  look(i);
  if
  :: !h -> recheck(i)
  :: else -> h = 0; d_step { SC2 -> SCWANT(WANT(i), 1) }
  fi
#else
  d_step { SC2 -> SCWANT(WANT(i), 1) };
  recheck(i)
#endif
}

inline condemn(i) {             /* ask, condemn, look once */
  d_step { SC2 -> SCWANT(WANT(i), 1) };
  d_step { SC1 -> pk[i] = CONDEMNED; parked[i] = 0; SCST(ST(i), W(CONDEMNED, pl[i])) };
#ifdef MUT_CONDEMN_FREES
  freeslot(i)
#else
  recheck(i)
#endif
}

inline evict(i) {
  look(i);
  if
  :: !h -> condemn(i)
  :: else -> h = 0; parked[i] = 1; arm(i)       /* park; the state is not touched */
  fi
}

inline writing(i, r, c) {       /* ps[i] = serial of the object, used[r] = 1; c: a client writes it */
  d_step { ROOM -> po[i] = r; put(FLD(i), F(r, c, 0, ps[i])) };
  d_step { ROOM -> pk[i] = WRITING; put(ST(i), W(WRITING, pl[i])) }
}

inline ready(i) { d_step { ROOM -> pk[i] = READY; put(ST(i), W(READY, pl[i])) } }

inline publish(i, r) {          /* an object the daemon itself writes */
  writing(i, r, 0);
  d_step { ROOM -> put(MEM(r), ps[i]) };
#ifdef MUT_ZERO_HOLDS
  d_step { ROOM -> put(CNT(0,i), 0) };
  d_step { ROOM -> put(CNT(1,i), 0) };
#endif
  ready(i)
}

inline move(i, r) {
  ps[1-i] = ps[i];
  publish(1-i, r);
  condemn(i)
}

/* puts of client 1 */
#ifdef PUT
inline answer(a, f) { d_step { if :: conn[1] -> told ! a, f :: !conn[1] fi } }

inline start(i, r) {
  d_step { PICK(r); used[r] = 1; nser++; ps[i] = nser; pw[i] = 1 };
#ifdef MUT_ANSWER_FIRST
  answer(OPEN(i, pl[i]), F(r, 1, 0, ps[i]));
  writing(i, r, 1);
#else
  writing(i, r, 1);
  answer(OPEN(i, pl[i]), F(r, 1, 0, ps[i]));
#endif
  r = 0
}

inline seal_flag(i) { d_step { ROOM -> put(FLD(i), F(po[i], 1, 1, ps[i])) } }

inline complete(i) {            /* sealed: it becomes READY, or the key exists */
#if NSLOT > 1
  if
  :: pk[1-(i)] == READY ->
#ifdef REPLACE
#ifdef MUT_READY_FIRST
     d_step { pw[i] = 0; sealed[i] = 0 }; ready(i);
     condemn(1-(i))
#else
     condemn(1-(i));
#ifdef MUT_SEAL_LATE
     seal_flag(i);
#endif
     d_step { pw[i] = 0; sealed[i] = 0 }; ready(i)
#endif
#else
     sealed[i] = 0; discard(i)
#endif
  :: else -> d_step { pw[i] = 0; sealed[i] = 0 }; ready(i)
  fi
#else
  d_step { pw[i] = 0; sealed[i] = 0 }; ready(i)
#endif
}

inline seal(i) {
#ifndef MUT_SEAL_LATE
  seal_flag(i);
#endif
  complete(i)
}

#define IS_OPEN(i, x) (pk[i] == WRITING && pw[i] && (x) == OPEN(i, pl[i]))
#if NSLOT > 1
#define STARTS \
  if \
  :: pk[0] == FREE && ANYREG -> start(0, r) \
  :: pk[0] != FREE && pk[1] == FREE && ANYREG -> start(1, r) \
  :: else -> answer(0, 0) \
  fi
#define SEALS \
  if \
  :: IS_OPEN(0, x) -> x = 0; seal(0) \
  :: IS_OPEN(1, x) -> x = 0; seal(1) \
  :: else -> x = 0              /* done before the crash; the answer was lost */ \
  fi; \
  answer(1, 0)
#define ABORTS \
  if \
  :: IS_OPEN(0, x) -> x = 0; discard(0) \
  :: IS_OPEN(1, x) -> x = 0; discard(1) \
  :: else -> x = 0 \
  fi
#else
#define STARTS if :: pk[0] == FREE && ANYREG -> start(0, r) :: else -> answer(0, 0) fi
#define SEALS  if :: IS_OPEN(0, x) -> x = 0; seal(0) :: else -> x = 0 fi; answer(1, 0)
#define ABORTS if :: IS_OPEN(0, x) -> x = 0; discard(0) :: else -> x = 0 fi
#endif
#endif

/* pins */
#ifdef PIN
inline ask() {                  /* any READY slot will do: the library compares the key under its hold */
  d_step {
    if
    :: !conn[ASKS]
    :: conn[ASKS] && pk[0] == READY -> pin[0]++; owed = 1; pinned ! 1
#if NSLOT > 1
    :: conn[ASKS] && pk[0] != READY && pk[1] == READY -> pin[1]++; owed = 2; pinned ! 2
    :: conn[ASKS] && pk[0] != READY && pk[1] != READY -> pinned ! 0
#else
    :: conn[ASKS] && pk[0] != READY -> pinned ! 0
#endif
    fi
  }
}

#ifdef MUT_UNPIN_NOWAKE
#define WAKE_AFTER_UNPIN(i) skip
#else
#define WAKE_AFTER_UNPIN(i) recheck(i)
#endif
#ifdef MUT_PIN_LEAK
inline drop_pins(s) { skip }
#else
inline drop_pins(s) {
  d_step { if :: s == ASKS -> pin[0] = 0;
#if NSLOT > 1
    pin[1] = 0
#endif
    :: else fi }
}
#endif
#endif

inline handle(s) {              /* message m, x of client s */
  if
#if NSLOT > 1
  :: m == TELL && x == 0 -> m = 0; recheck(0)
  :: m == TELL && x == 1 -> d_step { m = 0; x = 0 }; recheck(1)
#else
  :: m == TELL -> m = 0; recheck(0)
#endif
#ifdef PIN
  :: m == ASK -> m = 0; ask()
  :: m == UNPIN && x == 0 -> d_step { m = 0; if :: pin[0] > 0 -> pin[0]-- :: else fi }; WAKE_AFTER_UNPIN(0)
#if NSLOT > 1
  :: m == UNPIN && x == 1 -> d_step { m = 0; x = 0; if :: pin[1] > 0 -> pin[1]-- :: else fi }; WAKE_AFTER_UNPIN(1)
#endif
#endif
#ifdef PUT
  :: m == START -> m = 0; STARTS
  :: m == SEAL -> m = 0; SEALS
  :: m == ABORT -> m = 0; ABORTS
#endif
  fi
}
