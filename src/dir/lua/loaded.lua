-- DIR_OP_LOADED: generation node incarnation
local generation, node, incarnation = unpack(ARGV)

if is_plain and e.g == generation and e['h' .. node] == incarnation .. LOADING then
	local done = redis.pcall('HSET', KEY, 'h' .. node, incarnation .. SECONDARY)
	if type(done) == 'number' then return {DONE, 0, raw} end -- else there is no memory
end

-- and else:
if e.g ~= generation then return answer(GONE) end
if e['h' .. node] == incarnation .. KEEPER then return answer(DONE) end
if not hold(node, incarnation, SECONDARY) then return answer(FULL) end
return save(DONE, nil, true)
