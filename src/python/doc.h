/*
 * doc.h - the docstrings. The first line of each is the signature, as inspect reads it.
 */
#ifndef PYTHON_DOC_H
#define PYTHON_DOC_H

#define DOC_PUT_KEYWORDS                                         \
	"*, softpin=False, ttl=None, readers=0, durable=False, " \
	"replicas=1, replicas_required=False, replace=False, timeout="
#define DOC_PUT_OPTIONS                                                              \
	"softpin: keep it until its owner removes it; else it is a cache object.\n"  \
	"ttl: seconds from the end of the put until it is removed, None = never.\n"  \
	"readers: removed after so many ended reads, 0 = never.\n"                   \
	"durable: return only after it is on disk; NotSupported without a disk.\n"   \
	"replicas: nodes of a cluster that are to keep it, up to 8; softpin only.\n" \
	"It returns when they do, or no other will now, or at the deadline; what\n"  \
	"is lacking is made up in the background. replicas_required: waits for\n"    \
	"them until the deadline, and fails then (NotSupported if it is alone).\n"   \
	"replace: put it in the place of what the key has. Who reads the old\n"      \
	"object goes on; a get finds it, or the new one.\n"
#define DOC_PUT_ERRORS                                                               \
	"Exists: the key has an object already, on this node or another. NoSpace:\n" \
	"no room until the deadline. TooLarge: larger than the pool. Timeout,\n"     \
	"Unavailable: nothing was put, unless the daemon ended during the put:\n"    \
	"then it may be there. durable: IoError as well."
#define DOC_GET_KEYWORDS "*, wait=False, timeout=10.0)\n--\n\n"
#define DOC_GET_OPTIONS                                              \
	"wait: wait for the key to be put, else NotFound at once.\n" \
	"timeout: seconds, None = for ever.\n\n"
#define DOC_BATCH                                                                   \
	"Returns a list with a result per key; that of a key which failed is the\n" \
	"exception, which is not raised. The deadline is one for all.\n"

/* ---- the module ------------------------------------------------------------ */

#define DOC_CONNECT                                                                \
	"connect(socket=None, read_only=False, timeout=10.0)\n--\n\n"              \
	"Attach to the daemon of this node and return a Store.\n\n"                \
	"socket: its path; None is $CENOTE_SOCKET, or /run/cenote/cenote.sock\n"   \
	"where that is unset or empty.\n"                                          \
	"read_only: map the pool so that nothing in it can be written; puts are\n" \
	"refused.\n"                                                               \
	"timeout: seconds to wait for a daemon, None = for ever.\n\n"              \
	"Unavailable: no daemon. VersionError: it speaks another protocol.\n"      \
	"NotPermitted: not for this user. TooMany: 256 clients are attached."

#define DOC_INJECT_FAULT                                                        \
	"inject_fault(name, action, value=0, from_hit=1, times=1)\n--\n\n"      \
	"Arm a fault point of this process: from its hit number from_hit on,\n" \
	"times times (-1 = for ever), do action: 'sleep' (value ms),\n"         \
	"'return_error' (value, any negative number), 'kill' or 'reset'.\n\n"   \
	"Returns 0 or a negative error number; release builds have no fault points."

#define DOC_GET_FAULT_STATUS                                                   \
	"get_fault_status(name)\n--\n\n"                                       \
	"{'hits': int, 'fired': int} of a fault point of this process, or a\n" \
	"negative error number."

/* ---- Store ----------------------------------------------------------------- */

#define DOC_STORE                                                                   \
	"One attached node; from connect().\n\n"                                    \
	"A key is str (as UTF-8) or bytes, 1 to 1,024 of them, any but NUL. Any\n"  \
	"thread may make any call. In a forked child every call is a ForkedError\n" \
	"until reattach()."

#define DOC_PUT                                                                     \
	"put($self, /, key, data, " DOC_PUT_KEYWORDS "10.0)\n--\n\n"                \
	"Store a copy of data: bytes, a numpy array or any contiguous "             \
	"buffer. With replicas it returns how many nodes keep it, else "            \
	"None.\n\n" DOC_PUT_OPTIONS                                                 \
	"timeout: seconds to wait for room or for another put of the key to end,\n" \
	"None = for ever.\n\n" DOC_PUT_ERRORS

#define DOC_UPSERT                                                                   \
	"upsert($self, /, key, data, *, softpin=False, ttl=None, readers=0, "        \
	"durable=False, replicas=1, replicas_required=False, timeout=10.0)\n--\n\n"  \
	"put() with replace=True: what the key had is replaced, and readers of it\n" \
	"go on. Without an object it is a put as any other."

#define DOC_PUT_PARTS                                                       \
	"put_parts($self, /, key, parts, " DOC_PUT_KEYWORDS "10.0)\n--\n\n" \
	"Store several buffers, one behind the other, as one object; else as put()."

#define DOC_CREATE                                                                  \
	"create($self, /, key, size, " DOC_PUT_KEYWORDS "60.0)\n--\n\n"             \
	"Return a Writer over size bytes, for a put in place: sealed at the end\n"  \
	"of a `with` block, aborted when an exception leaves it. Nobody sees the\n" \
	"object before.\n\n" DOC_PUT_OPTIONS                                        \
	"timeout: seconds for the whole put, None = for ever; its seal() has one\n" \
	"at least.\n\n" DOC_PUT_ERRORS

#define DOC_GET                                                                          \
	"get($self, /, key, " DOC_GET_KEYWORDS                                           \
	"Return a Buffer over the object, in place, without a copy.\n\n" DOC_GET_OPTIONS \
	"NotFound, Timeout. Of what must come back from the disk, or from another\n"     \
	"node, also NoSpace: nothing may leave memory for it until the deadline;\n"      \
	"Corrupt, IoError; Lost: every copy is gone; Unavailable, LeaseExpired,\n"       \
	"TransferFailed: no copy could be had in time."

#define DOC_GET_BUFFER \
	"get_buffer($self, /, key, " DOC_GET_KEYWORDS "Another name of get()."

#define DOC_GET_INTO                                                 \
	"get_into($self, /, key, buffer, " DOC_GET_KEYWORDS          \
	"Copy the whole object into a writable buffer; returns its " \
	"bytes.\n\n" DOC_GET_OPTIONS                                 \
	"BufferTooSmall, with both sizes; the errors of get()."

#define DOC_TAKE                                                                  \
	"take($self, /, key, " DOC_GET_KEYWORDS                                   \
	"Get and remove in one: of all who try, on all nodes, exactly one gets\n" \
	"the Buffer, the others NotFound.\n\n" DOC_GET_OPTIONS "The errors of get()."

#define DOC_WAIT                                       \
	"wait($self, /, key, *, timeout=10.0)\n--\n\n" \
	"Return when the key has an object.\n\n"       \
	"timeout: seconds, None = for ever.\n\n"       \
	"Timeout, Unavailable."

#define DOC_EXISTS                      \
	"exists($self, key, /)\n--\n\n" \
	"Whether the key has an object. Protects and heats nothing."

#define DOC_STAT                                                                       \
	"stat($self, key, /)\n--\n\n"                                                  \
	"A Stat: size in bytes, generation, expires_in in seconds or None, holds\n"    \
	"of all clients now, softpin, in_pool and on_disk: where its bytes are, and\n" \
	"readers_left, of one that was put with readers (else 0).\n"                   \
	"Of an object that only other nodes have it knows size, generation and\n"      \
	"softpin alone. Protects and heats nothing.\n\n"                               \
	"NotFound."

#define DOC_LIST                                                                       \
	"list($self, /, prefix='', regex=None)\n--\n\n"                                \
	"A list of Entry(key, size, softpin) for all objects whose key starts with\n"  \
	"prefix, in no order; one put or removed meanwhile may be in it or not, and\n" \
	"one that moves between memory and disk, or nodes, twice or not at all. A\n"   \
	"key that is no UTF-8 is bytes. Of a cluster it has what every node keeps\n"   \
	"that can be reached. Protects and heats nothing.\n\n"                         \
	"regex: of these only those with a match in any part of the key. It is a\n"    \
	"POSIX extended regular expression, not one of module re: [0-9], not \\d.\n\n" \
	"BadArgument: regex is none, and why."

#define DOC_TOUCH                                                                 \
	"touch($self, key, /)\n--\n\n"                                            \
	"Mark as used, so that reclaim takes others first. Protects nothing.\n\n" \
	"NotFound."

#define DOC_REMOVE                                                               \
	"remove($self, key, /)\n--\n\n"                                          \
	"End the object, whoever reads it: running reads finish. True: it was\n" \
	"there, or the daemon ended meanwhile and it may have been; False: it\n" \
	"was not, which counts as done. A put of the key under way ends with\n"  \
	"Removed. No node that can be reached finds it afterwards; one that\n"   \
	"cannot learns of it when it is back."

#define DOC_REMOVE_PREFIX                                                              \
	"remove_prefix($self, prefix, /)\n--\n\n"                                      \
	"remove() of every object whose key starts with prefix, '' is all, on all\n"   \
	"nodes, in one call. Returns how many there were. A put of such a key under\n" \
	"way ends with Removed. After an error some may be left: call it again."

#define DOC_REMOVE_REGEX                                                           \
	"remove_regex($self, pattern, /)\n--\n\n"                                  \
	"remove() of every object that list(regex=pattern) finds, one by one.\n"   \
	"Returns how many were removed; what was gone by then is not counted.\n\n" \
	"BadArgument: pattern is no regular expression, and why."

#define DOC_PUT_BATCH                                                              \
	"put_batch($self, /, keys, values, " DOC_PUT_KEYWORDS "10.0)\n--\n\n"      \
	"put() of many keys. A value is a buffer, or a list or tuple of buffers\n" \
	"that are stored one behind the other.\n\n" DOC_BATCH                      \
	"A key that worked: None, or with replicas how many nodes keep it."

#define DOC_CREATE_BATCH                                                        \
	"create_batch($self, /, keys, sizes, " DOC_PUT_KEYWORDS "60.0)\n--\n\n" \
	"create() of many keys.\n\n" DOC_BATCH "A key that worked: its Writer."

#define DOC_GET_BATCH                                 \
	"get_batch($self, /, keys, " DOC_GET_KEYWORDS \
	"get() of many keys.\n\n" DOC_BATCH "A key that worked: its Buffer."

#define DOC_GET_INTO_BATCH                                          \
	"get_into_batch($self, /, keys, buffers, " DOC_GET_KEYWORDS \
	"get_into() of many keys.\n\n" DOC_BATCH                    \
	"A key that worked: the bytes of its object."

#define DOC_TAKE_BATCH                                 \
	"take_batch($self, /, keys, " DOC_GET_KEYWORDS \
	"take() of many keys.\n\n" DOC_BATCH "A key that worked: its Buffer."

#define DOC_EXISTS_BATCH                       \
	"exists_batch($self, /, keys)\n--\n\n" \
	"exists() of many keys.\n\n" DOC_BATCH

#define DOC_STAT_BATCH                       \
	"stat_batch($self, /, keys)\n--\n\n" \
	"stat() of many keys.\n\n" DOC_BATCH

#define DOC_TOUCH_BATCH                       \
	"touch_batch($self, /, keys)\n--\n\n" \
	"touch() of many keys.\n\n" DOC_BATCH "A key that worked: None."

#define DOC_REMOVE_BATCH                       \
	"remove_batch($self, /, keys)\n--\n\n" \
	"remove() of many keys.\n\n" DOC_BATCH "True: it was there; False: it was not."

#define DOC_INFO                                                                    \
	"info($self, what, /)\n--\n\n"                                              \
	"A text about the node: 'stats' and 'config' as JSON, 'check' as 'ok' or\n" \
	"what was found broken."

#define DOC_DRAIN                                                                     \
	"drain($self, /, end=False)\n--\n\n"                                          \
	"Empty the node, so that it can be taken away from its cluster: it refuses\n" \
	"puts from now on (Unavailable), and hands all softpin objects that it\n"     \
	"keeps to other nodes. Returns at once; it is empty when\n"                   \
	"json.loads(info('stats'))['cluster']['drain']['state'] is 'empty'. With\n"   \
	"`end` the node takes puts again. NotSupported: it is in no cluster."

#define DOC_POOL_REGION                                                            \
	"pool_region($self, /)\n--\n\n"                                            \
	"(address, bytes) of the pool in this process, to register it with CUDA\n" \
	"or a network card."

#define DOC_REATTACH                                                                \
	"reattach($self, /)\n--\n\n"                                                \
	"In a forked child: attach this process, as connect() did the parent. In\n" \
	"the process that is attached it does nothing. Buffers from before stay\n"  \
	"the parent's.\n\n"                                                         \
	"The errors of connect()."

#define DOC_CLOSE                                                                  \
	"close($self, /)\n--\n\n"                                                  \
	"Detach, once the last Buffer, Writer and call of this store has ended.\n" \
	"Calls after it are a ValueError."

#define DOC_STORE_INJECT_FAULT                                                       \
	"inject_fault($self, /, name, action, value=0, from_hit=1, times=1)\n--\n\n" \
	"As the function of the module."

#define DOC_STORE_GET_FAULT_STATUS                 \
	"get_fault_status($self, /, name)\n--\n\n" \
	"As the function of the module."

#define DOC_INJECT_FAULT_LOCAL_MASTER                                            \
	"inject_fault_local_master($self, /, name, action, value=0, from_hit=1," \
	" times=1)\n--\n\n"                                                      \
	"As inject_fault(), in the daemon. 0 or a negative error number."

#define DOC_GET_FAULT_STATUS_LOCAL_MASTER                       \
	"get_fault_status_local_master($self, /, name)\n--\n\n" \
	"As get_fault_status(), of the daemon."

/* ---- Buffer ---------------------------------------------------------------- */

#define DOC_BUFFER                                                                  \
	"An object of the store, in place and read-only; from Store.get().\n\n"     \
	"Its bytes stay as they are while the Buffer or any view of it lives:\n"    \
	"memoryview(buffer), numpy.frombuffer(buffer, dtype),\n"                    \
	"torch.frombuffer(buffer, dtype=...), buffer[i:j]. To numpy.ndarray(...)\n" \
	"give memoryview(buffer). At the end of a `with` block the hold ends, or\n" \
	"with the last view.\n\n"                                                   \
	"ValueError: viewed after release. ForkedError: viewed in a forked child."

#define DOC_RELEASE                                         \
	"release($self, /)\n--\n\n"                         \
	"End the hold now. A second time does nothing.\n\n" \
	"BufferError: a memoryview, numpy array or tensor of it lives."

/* ---- Writer ---------------------------------------------------------------- */

#define DOC_WRITER                                                                     \
	"Room for an object, written in place; from Store.create().\n\n"               \
	"    with store.create(key, array.nbytes) as writer:\n"                        \
	"        numpy.frombuffer(writer, array.dtype)[:] = array\n\n"                 \
	"Sealed when the block ends, aborted when an exception leaves it. Views of\n"  \
	"it must be gone by then (`del view`): one that lives is a BufferError, and\n" \
	"the object is aborted."

#define DOC_SEAL                                                                \
	"seal($self, /)\n--\n\n"                                                \
	"Show the object to all.\n\n"                                           \
	"BufferError: a view of the writer lives. Timeout: the deadline of\n"   \
	"create(), 60 s at least, has passed. Removed: the key was removed\n"   \
	"meanwhile. Exists: another put was first. Unavailable: no daemon,\n"   \
	"seal again; or no directory, or too few nodes (replicas_required),\n"  \
	"and it is over: a second seal() is a ValueError. NoSpace: as that,\n"  \
	"the others have no room. With replicas it returns how many keep it,\n" \
	"else None."

#define DOC_ABORT                                           \
	"abort($self, /)\n--\n\n"                           \
	"Give the room back; nobody has seen anything.\n\n" \
	"BufferError: a view of the writer lives."

#endif
