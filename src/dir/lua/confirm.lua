-- DIR_OP_CONFIRM: generation
if is_plain and e.g == ARGV[1] and tonumber(e.f) >= PROVISIONAL then
	local done = redis.pcall('HSET', KEY, 'f', string.format('%d', e.f - PROVISIONAL))
	if type(done) == 'number' then return {DONE, 0, raw} end -- else there is no memory
end

-- and else:
if e.g ~= ARGV[1] then return answer(GONE) end
if has_flag(PROVISIONAL) then put('f', text(e.f - PROVISIONAL)) end
del('r')
del('rx')
return save(DONE, nil, true)
