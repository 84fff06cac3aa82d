-- DIR_OP_ANNOUNCE: generation node incarnation role size flags wanted ttl
local generation, node, incarnation, role, size, flags, wanted, ttl = unpack(ARGV)

if #raw == 0 and ttl == '0' then
	redis.call('HSET', KEY, 'g', generation, 's', size, 'f', flags, 'w', wanted,
		'h' .. node, incarnation .. role)
	return {DONE, 0, raw}
end

-- and else:
local what = 'announce ' .. node

-- To one that is there already.
local function announce_same()
	local after = {}
	local own = e['h' .. node]
	local again = own and repeated(what)
	local is_same = again and again.role == role
	-- What it had from its disk it has still, though its pool is another.
	if is_same and (own == incarnation .. SECONDARY or own == incarnation .. KEEPER) then return again end
	-- Another role is no repeat, though who had what the entry replaced may not have been told.
	if again and not is_same and again[1] == REPLACED then
		remember(what, REPLACED, again[3], role)
	elseif again and not is_same then
		del('r')
		del('rx')
		again = nil
	end
	if role == KEEPER and count_keepers(node) >= math.max(tonumber(e.w), 1) then role = SECONDARY end
	if not hold(node, incarnation, role) then return answer(FULL) end
	if role == KEEPER and flags % 2 == SOFTPIN and not has_flag(SOFTPIN) then
		put('f', text(tonumber(e.f) + SOFTPIN))
	end
	if again then return save(again[1], again[3]) end
	for field, value in pairs(e) do
		after[#after + 1] = field
		after[#after + 1] = value
	end
	drop('q')
	return save(DONE, after)
end

if e.t and e.t >= generation then return answer(REMOVED) end
if e.g == generation then return announce_same() end
if e.g and e.g > generation and not has_flag(PROVISIONAL) then return answer(OLDER) end
local verdict = e.g and REPLACED or DONE
local told = e.g or count('q') > 0
make(generation, node, incarnation, role, size, flags, wanted, ttl)
if told then remember(what, verdict, before(), role) end
return save(verdict)
