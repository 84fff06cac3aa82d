-- Begin an epoch: the key's new value, if it is still what it was, '' for none. Answers with
-- what it is then.
local at = redis.call('GET', KEYS[1])
if (at or '') ~= ARGV[1] then return at or '' end
redis.call('DEL', KEYS[1]) -- a full server takes what begins with a removal
redis.call('SET', KEYS[1], ARGV[2])
return ARGV[2]
