/*
 * hold.pml - the hold protocol of the shared memory as a model, on x86-TSO.
 *
 * Client 0 has the threads T0 and T1, client 1 has T2. The daemon's plain stores go through
 * a FIFO store buffer, drained by flush() at any later time; its seq_cst stores (xchg) and
 * its locked instructions need the buffer empty. The clients' locked instructions act on
 * memory at once. Each step makes at most one access to memory that another process may
 * write at that time. Freed memory is overwritten at once.
 *
 * A kill stops every thread of a client between two steps. A crash stops the daemon between
 * two steps: its retired stores reach memory; its private state, its connections and the
 * messages it had not read are lost. A close takes a client's socket away and lets it live.
 *
 * Checked: each byte read under a valid hold is the object's; a slot is not freed between an
 * answer and the try it was given for; two generations of one key are never READY; at rest
 * (nothing can move) no object is parked, condemned or half written, no hold and no pin is
 * left, and under KEEP the key's object exists.
 *
 * This file has the memory, the messages and the faults; hold_client.pml has the clients,
 * hold_slot.pml and hold_daemon.pml the daemon.
 *
 *   NSLOT NREG     slots, regions of memory          OPS       operations the daemon starts
 *   NACQ  NPUT     gets of a thread, puts            SB        depth of the store buffer
 *   KILLS CRASHES CLOSES   faults at most            ONE_THREAD  without T1
 *   MOVE           move by copy (two slots)          NOREMOVE  without remove
 *   PIN            the last reading thread asks the daemon by message and is answered with a pin
 *   PUT            T2 writes objects; there is one key. With REPLACE a put replaces, else the
 *                  first wins. KEEP: softpin, the daemon neither evicts nor removes (two slots)
 *   FINE           the reader loads the fields in a step of its own, reads want and sends in two
 *   FIELDS_FIRST   the reader loads the fields before the hold
 *   LIVE           endless gets and operations, for the ltl formulas at the end
 *   MUT_*          breaks one rule each; each must be caught
 */
#ifndef NSLOT
#define NSLOT 1
#endif
#ifndef NREG
#define NREG 2
#endif
#ifndef OPS
#define OPS 3
#endif
#ifndef NACQ
#define NACQ 1
#endif
#ifndef NPUT
#define NPUT 1
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef CLOSES
#define CLOSES 0
#endif
#ifndef SB
#define SB 2
#endif
#ifdef LIVE
#define LIVES 2                 /* lives wrap around: endless runs need a finite state */
#define QLEN 1
#else
#define LIVES 32
#define QLEN 6
#endif

/* the thread that asks, and its client */
#ifdef PUT
#ifdef ONE_THREAD
#define ASKER 0
#else
#define ASKER 1
#endif
#define ASKS 0
#else
#define ASKER 2
#define ASKS 1
#endif

#define FREE 0
#define WRITING 1
#define READY 2
#define CONDEMNED 3
#define W(k,l) ((k) + 4*(l))            /* the slot's state word: kind, life */
#define kindof(x) ((x) % 4)
#define lifeof(x) ((x) / 4)
#define F(o,w,z,s) ((o) + 4*(w) + 8*(z) + 16*(s)) /* its fields: region, client writes it, sealed, serial of the object */
#define offof(x) ((x) % 4)
#define wrof(x) (((x) / 4) % 2)
#define sealof(x) (((x) / 8) % 2)
#define serof(x) ((x) / 16)

/* what is checked; the numbers are for check_model.py to tell the findings apart */
#define RULE_BYTES 901          /* a byte read under a valid hold is the object's */
#define RULE_OWED 902           /* no free between an answer and the try it was given for */
#define RULE_ONE 903            /* one key, one READY generation */
#define RULE_PARKED 904         /* at rest: no object is parked, */
#define RULE_KIND 905           /*   condemned or WRITING, */
#define RULE_HOLD 906           /*   no hold is left, */
#define RULE_PIN 907            /*   no pin is left, */
#define RULE_WAIT 908           /*   no client waits for an answer, */
#define RULE_LOST 909           /*   and under KEEP the object exists */
#define RULE_QUEUE 910          /* of the model itself: QLEN is enough */
#define RULE(name, cond) assert((name) && (cond))

/* addresses */
#define ST(i)    (i)
#define FLD(i)   (NSLOT+(i))
#define WANT(i)  (2*NSLOT+(i))
#define CNT(s,i) (3*NSLOT+(s)*NSLOT+(i))
#define MEM(r)   (5*NSLOT+(r))
#define NADDR    (5*NSLOT+NREG)

byte M[NADDR];                          /* shared memory */
byte dba[SB]; byte dbv[SB]; byte dbn;   /* the daemon's store buffer */
#ifdef MUT_HOLD_PLAIN
byte rba; byte rbv; byte rbn;           /* T2's store buffer, one entry */
#endif

/* messages: a socket per client */
#define TELL 1
#define ASK 2
#define UNPIN 3
#define START 4
#define SEAL 5
#define ABORT 6
#define OPEN(i,l) (1 + (i) + 2*(l))     /* names a put: slot and life; 0 = none */
chan q0 = [QLEN] of { byte, byte };
chan q1 = [QLEN] of { byte, byte };
bool conn[2];
#if CLOSES > 0
bool closed[2];
#endif
#ifdef PIN
chan pinned = [1] of { byte };          /* the daemon's answer to ASK: slot + 1, or 0 */
bool asking;
byte owed;                              /* ghost: slot + 1 that an answered try relies on */
#endif
#ifdef PUT
chan told = [1] of { byte, byte };      /* its answer to START and SEAL: which put, fields; or 0 */
bool putting;
byte own;                               /* client 1's library: its open put */
#endif

bool killed[2]; bool dead[3];
byte kills, crashes, closes, ops, nser;
bool crash;
hidden byte bi, bj;

/* the daemon's private state, lost in a crash */
byte pk[NSLOT]; byte pl[NSLOT]; byte po[NSLOT]; byte ps[NSLOT];   /* kind, life, region, serial */
bool parked[NSLOT]; bool used[NREG];
#ifdef PIN
byte pin[NSLOT];
#endif
#ifdef PUT
bool pw[NSLOT];                         /* client 1 writes it */
bool sealed[NSLOT];
#endif

#ifdef ONE_THREAD
#define ONLY 1
#else
#define ONLY 0
#endif
#define sess(t) ((t)/2)
#define gone(s) (killed[s] && ((s)==0 -> (dead[0] && dead[1]) : dead[2]))
#if NREG > 2
#define PICK(r) if :: !used[0] -> r = 0 :: else -> if :: !used[1] -> r = 1 :: else -> r = 2 fi fi
#define ANYREG (!used[0] || !used[1] || !used[2])
#else
#define PICK(r) if :: !used[0] -> r = 0 :: else -> r = 1 fi
#define ANYREG (!used[0] || !used[1])
#endif
#define put(a,v) dba[dbn] = a; dbv[dbn] = v; dbn++   /* inside a d_step guarded by ROOM */
#define ROOM (dbn < SB)
#define EMPTY (dbn == 0)

#ifdef MUT_STATE_PLAIN
#define SC1 ROOM
#define SCST(a,v) put(a,v)
#else
#define SC1 EMPTY
#define SCST(a,v) M[a] = v
#endif
#ifdef MUT_WANT_PLAIN
#define SC2 ROOM
#define SCWANT(a,v) put(a,v)
#else
#define SC2 EMPTY
#define SCWANT(a,v) M[a] = v
#endif

inline shift() {
  M[dba[0]] = dbv[0];
  bi = 0;
  do :: bi < SB-1 -> dba[bi] = dba[bi+1]; dbv[bi] = dbv[bi+1]; bi++ :: else -> break od;
  dba[SB-1] = 0; dbv[SB-1] = 0; dbn--; bi = 0;
#if defined(PUT) && NSLOT > 1
  RULE(RULE_ONE, kindof(M[ST(0)]) != READY || kindof(M[ST(1)]) != READY || serof(M[FLD(0)]) == serof(M[FLD(1)]))
#endif
}

active proctype flush() {
end:
  do
  :: d_step { dbn > 0 -> shift() }
#ifdef MUT_HOLD_PLAIN
  :: d_step { rbn > 0 -> M[rba] = rbv; rbn = 0; rba = 0; rbv = 0 }
#endif
  od
}

inline hangup(s) {              /* inside a d_step: who waits for an answer sees the end of the file */
  conn[s] = 0;
#ifdef PIN
  if
  :: s == ASKS -> owed = 0; if :: asking && len(pinned) == 0 -> pinned ! 0 :: !asking || len(pinned) > 0 fi
  :: s != ASKS
  fi;
#endif
#ifdef PUT
  if :: s == 1 && putting && len(told) == 0 -> told ! 0, 0 :: s != 1 || !putting || len(told) > 0 fi
#endif
}

#if KILLS > 0 || CRASHES > 0 || CLOSES > 0
active proctype env() {
end:
  do
#if KILLS > 0
  :: d_step { kills < KILLS && !killed[0] -> killed[0] = 1; kills++; hangup(0) }
  :: d_step { kills < KILLS && !killed[1] -> killed[1] = 1; kills++; hangup(1) }
#endif
#if CLOSES > 0
  :: d_step { closes < CLOSES && conn[0] -> closed[0] = 1; closes++; hangup(0) }
  :: d_step { closes < CLOSES && conn[1] -> closed[1] = 1; closes++; hangup(1) }
#endif
#if CRASHES > 0
  :: d_step { crashes < CRASHES && !crash -> crash = 1; crashes++ }
#endif
  :: d_step { (kills < KILLS || crashes < CRASHES || closes < CLOSES) && !crash ->
       kills = KILLS; crashes = CRASHES; closes = CLOSES }      /* no more faults */
  od
}
#endif

#include "hold_client.pml"
#include "hold_slot.pml"
#include "hold_daemon.pml"

#ifdef LIVE
#define NOHOLD (M[CNT(0,0)] == 0 && M[CNT(1,0)] == 0)
ltl freed   { (<>[] NOHOLD) -> ([]<> (pk[0] == FREE)) }
ltl woken   { (<>[] NOHOLD) -> ([]<> (!parked[0])) }
ltl drained { (<>[] NOHOLD) -> ([]<> (pk[0] != CONDEMNED)) }
#endif
