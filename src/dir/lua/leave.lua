-- DIR_OP_LEAVE: generation, who leaves, its incarnation or '', whether it says so itself
local generation, node, incarnation, own = unpack(ARGV)
local holder = e['h' .. node]

if e.g ~= generation or not holder then return answer(GONE) end
if incarnation ~= '' and string.sub(holder, 1, 16) ~= incarnation then return answer(GONE) end
-- Nobody keeps it any more: so it is over, and will not be lost with the last copy.
if own == '1' and string.sub(holder, 17) == KEEPER and count_keepers(node) == 0 and has_flag(SOFTPIN) then
	put('f', text(tonumber(e.f) - SOFTPIN))
end
let_go(node)
return save(DONE)
