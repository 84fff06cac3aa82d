-- common.lua - what the scripts on the key of an object have in common.
--
-- Most calls meet a key of which nothing is there, or nothing but an entry without an end. A
-- script may do those in a few lines before its "and else", behind what stands before it here:
-- that takes half of the time. Of the functions each script gets those that it names
-- (embed.py), since they are made anew in every call.
--
-- The key is a hash. Numbers in it are 16 hexadecimal digits, so that they compare as text,
-- but for times, which are ms of the server's clock.
--
--   g s f w    generation, size, flags, wanted of the entry; it is there while `g` is
--   h<node>    a holder of it: incarnation and role
--   x l        when it ends: by its time to live; because nobody has its bytes
--   r rx       what the command that made it answered, for a repeat; until when
--   t tx       tombstone: generation; until when
--   k kx       tokens of removals, "token generation until " each; until when the last
--   q<node>    a waiter; until when
--
-- `e` is what is there now. It is changed by put() and del() alone, and save() writes the
-- changes, removals first: a full server refuses to begin with anything else, so that what
-- frees memory is always possible.

local DONE, ABSENT, EXISTS, GONE, REMOVED, OLDER, REPLACED, FULL = 0, 1, 2, 3, 4, 5, 6, 7
local LOADING, SECONDARY, KEEPER = '1', '2', '3'
local SOFTPIN, PROVISIONAL = 1, 2
local HOLDERS, TOKENS = 64, 64
local REPEAT_MS, LOST_MS = 10000, 86400000

local KEY = KEYS[1]
local raw = redis.call('HGETALL', KEY) -- as it was
local e = {}
for i = 1, #raw, 2 do e[raw[i]] = raw[i + 1] end
local is_plain = e.g and not (e.x or e.l or e.r or e.t or e.k) -- an entry, and nothing else

-- and else:
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local gone, new = {}, {}
local ended = #raw > 0 and (not e.g or e.x or e.l) -- at some time, by itself

local function put(field, value)
	e[field] = value
	new[#new + 1] = field
end

local function del(field)
	if e[field] then
		e[field] = nil
		gone[#gone + 1] = field
	end
end

local function text(number)
	return string.format('%.0f', number)
end

local function is_over(at)
	return at and tonumber(at) <= now
end

local function is_of(field, kind)
	return #field == 17 and string.sub(field, 1, 1) == kind
end

local function count(kind)
	local n = 0
	for field in pairs(e) do
		if is_of(field, kind) then n = n + 1 end
	end
	return n
end

local function drop(kind)
	for field in pairs(e) do
		if is_of(field, kind) then del(field) end
	end
end

local function drop_entry()
	if not e.g then return end
	drop('h')
	for _, field in ipairs({'g', 's', 'f', 'w', 'x', 'l', 'r', 'rx'}) do del(field) end
end

local function has_flag(flag)
	return tonumber(e.f) % (2 * flag) >= flag
end

local function has_bytes()
	for field, holder in pairs(e) do
		if is_of(field, 'h') and string.sub(holder, 17) ~= LOADING then return true end
	end
	return false
end

-- Without the one of `node`.
local function count_keepers(node)
	local n = 0
	for field, holder in pairs(e) do
		if is_of(field, 'h') and field ~= 'h' .. node and string.sub(holder, 17) == KEEPER then n = n + 1 end
	end
	return n
end

-- One holder less; the entry may end with it.
local function let_go(node)
	del('h' .. node)
	if has_bytes() then return end
	if not has_flag(SOFTPIN) then
		drop_entry()
	elseif not e.l then
		put('l', text(now + LOST_MS))
	end
end

-- False: there is no room for one more.
local function hold(node, incarnation, role)
	local field = 'h' .. node
	if not e[field] and count('h') >= HOLDERS then return false end
	put(field, incarnation .. role)
	if role ~= LOADING then del('l') end
	return true
end

-- One tombstone is enough: of the highest generation, for as long as the longest.
local function bury(generation, ms)
	if not e.t or e.t < generation then put('t', generation) end
	put('tx', text(math.max(tonumber(e.tx or 0), now + ms)))
end

-- An entry in the place of what is there, held by the caller.
local function make(generation, node, incarnation, role, size, flags, wanted, ttl)
	drop_entry()
	drop('q')
	put('g', generation)
	put('s', size)
	put('f', flags)
	put('w', wanted)
	put('h' .. node, incarnation .. role)
	if ttl ~= '0' then put('x', text(now + ttl)) end
end

-- What was there, without what is for the scripts alone.
local function before()
	local list = {}
	for i = 1, #raw, 2 do
		if raw[i] ~= 'r' and raw[i] ~= 'k' then
			list[#list + 1] = raw[i]
			list[#list + 1] = raw[i + 1]
		end
	end
	return list
end

-- The entry that is made replaces one, or ends the wait of some: for a repeat. `old`: what before()
-- said; `role`: the one that an announcement asked for.
local function remember(what, verdict, old, role)
	put('r', cmsgpack.pack({what, verdict, old, role}))
	put('rx', text(now + REPEAT_MS))
end

local function repeated(what)
	local memo = e.r and cmsgpack.unpack(e.r)
	if memo and memo[1] == what then return {memo[2], now, memo[3], role = memo[4]} end
	return nil
end

local function answer(verdict, entry)
	return {verdict, now, entry or raw}
end

-- When nothing of the key is left, as it is now; nil: not by time.
local function last_end()
	local last = 0
	if e.g and not e.x and not e.l then return nil end
	for field, value in pairs(e) do
		if field == 'x' or field == 'l' or field == 'tx' or field == 'kx' or is_of(field, 'q') then
			last = math.max(last, tonumber(value))
		end
	end
	return last
end

-- `always`: also where there is no memory for anything new.
local function save(verdict, entry, always)
	local last, set = last_end(), {}
	for _, field in ipairs(new) do
		if e[field] then
			set[#set + 1] = field
			set[#set + 1] = e[field]
		end
	end
	if always and #gone == 0 then gone[1] = '-' end
	if #gone > 0 then redis.call('HDEL', KEY, unpack(gone)) end
	if #set > 0 then redis.call('HSET', KEY, unpack(set)) end
	if last then
		redis.call('PEXPIREAT', KEY, text(last))
	elseif ended then
		redis.call('PERSIST', KEY)
	end
	return answer(verdict, entry)
end

if ended or e.r or e.t or e.k then -- something of it is over, perhaps
	if is_over(e.x) or is_over(e.l) then drop_entry() end
	if is_over(e.rx) then del('r') del('rx') end
	if is_over(e.tx) then del('t') del('tx') end
	if is_over(e.kx) then del('k') del('kx') end
	for field, value in pairs(e) do
		if is_of(field, 'q') and is_over(value) then del(field) end
	end
end
