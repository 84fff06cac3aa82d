-- DIR_OP_TAKE_OUT: generation or 0, token or 0, ms to bury, nodes that are live, lost, keepers or '-'
local generation, token, ms, live, lost, keepers = unpack(ARGV)
local NONE = '0000000000000000'

local function all_are_told()
	for field in pairs(e) do
		if #field == 17 and string.byte(field) == 104 -- 'h'
			and not string.find(live, string.sub(field, 2), 1, true) then
			return false
		end
	end
	return true
end

if is_plain and keepers == '-' and token ~= NONE and lost ~= '1' and (generation == NONE or generation == e.g) then
	local clock = redis.call('TIME')
	local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
	local till = string.format('%.0f', now + REPEAT_MS)
	local buried = all_are_told() and till or string.format('%.0f', now + ms)
	redis.call('DEL', KEY)
	redis.call('HSET', KEY, 't', e.g, 'tx', buried, 'k', token .. ' ' .. e.g .. ' ' .. till .. ' ',
		'kx', till)
	redis.call('PEXPIREAT', KEY, string.format('%.0f', math.max(now + REPEAT_MS, buried)))
	return {DONE, now, raw}
end

-- and else:
local tokens = {}

local function sum_of_keepers()
	local sum = 0
	for field, holder in pairs(e) do
		if is_of(field, 'h') and string.sub(holder, 17) == KEEPER then sum = sum + tonumber(string.sub(field, 7), 16) end
	end
	return text(sum)
end

for of, taken, at in string.gmatch(e.k or '', '(%x+) (%x+) (%d+) ') do
	if of == token and token ~= NONE and (generation == NONE or generation == taken) then
		return answer(DONE, {'g', taken, 's', NONE, 'f', '0', 'w', '0'})
	end
	if not is_over(at) then tokens[#tokens + 1] = of .. ' ' .. taken .. ' ' .. at .. ' ' end
end
if not e.g or (generation ~= NONE and generation ~= e.g) then return answer(ABSENT) end
if keepers ~= '-' and keepers ~= sum_of_keepers() then return answer(EXISTS) end
if lost ~= '1' then bury(e.g, all_are_told() and REPEAT_MS or ms) end
if token ~= NONE then
	local till = text(now + REPEAT_MS)
	if #tokens == TOKENS then table.remove(tokens, 1) end
	tokens[#tokens + 1] = token .. ' ' .. e.g .. ' ' .. till .. ' '
	put('k', table.concat(tokens))
	put('kx', till)
end
drop_entry()
return save(DONE)
