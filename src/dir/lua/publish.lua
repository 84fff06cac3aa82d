-- DIR_OP_PUBLISH: generation node incarnation size flags wanted ttl replace
local generation, node, incarnation, size, flags, wanted, ttl, replace = unpack(ARGV)

if #raw == 0 and ttl == '0' then
	redis.call('HSET', KEY, 'g', generation, 's', size, 'f', flags, 'w', wanted,
		'h' .. node, incarnation .. KEEPER)
	return {DONE, 0, raw}
end

-- and else:
local what = 'publish ' .. node

if e.t and e.t >= generation then return answer(REMOVED) end
if e.g == generation and e['h' .. node] then return repeated(what) or answer(DONE, {}) end
if e.g and (replace == '0' or e.g >= generation) then return answer(EXISTS) end
local told = e.g or count('q') > 0
if e.g then bury(e.g, REPEAT_MS) end -- whoever holds it may be about to announce it
make(generation, node, incarnation, KEEPER, size, flags, wanted, ttl)
if told then remember(what, DONE, before()) end
return save(DONE)
