-- DIR_OP_RENEW: node, "incarnation free endpoint", ms. The key is the hash of all members:
-- node -> "until incarnation free endpoint". Answers with the fields of the others, or 7: there
-- are as many as there can be.
local node, what, ms = unpack(ARGV)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local raw = redis.call('HGETALL', KEYS[1])
local gone, others = {node}, {} -- one removal first, so that a full server takes it

for i = 1, #raw, 2 do
	local till = tonumber(string.match(raw[i + 1], '^(%d+) '))
	if not till or till <= now then
		gone[#gone + 1] = raw[i]
	elseif raw[i] ~= node then
		others[#others + 1] = raw[i]
		others[#others + 1] = raw[i + 1]
	end
end
if #others / 2 >= 64 then return 7 end
redis.call('HDEL', KEYS[1], unpack(gone))
redis.call('HSET', KEYS[1], node, string.format('%.0f %s', now + ms, what))
return others
