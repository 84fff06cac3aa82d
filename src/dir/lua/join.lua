-- DIR_OP_JOIN: node incarnation wait
local node, incarnation, wait = unpack(ARGV)
local own = e['h' .. node]

if #raw == 0 and wait == '0' then return {ABSENT, 0, raw} end
if is_plain and own and string.sub(own, 1, 16) == incarnation then return {DONE, 0, raw} end
if is_plain and not own and #raw / 2 <= HOLDERS then
	redis.call('HSET', KEY, 'h' .. node, incarnation .. LOADING)
	return {DONE, 0, raw}
end

-- and else:
own = e['h' .. node]
if own and string.sub(own, 1, 16) == incarnation then return answer(DONE) end
if own then let_go(node) end -- what an earlier incarnation had is gone
if e.g then
	if not hold(node, incarnation, LOADING) then return answer(FULL) end
	return save(DONE)
end
if wait ~= '0' then
	if not e['q' .. node] and count('q') >= HOLDERS then return answer(FULL) end
	put('q' .. node, text(now + wait))
end
if wait ~= '0' or own then return save(ABSENT, {}) end
return answer(ABSENT, {})
