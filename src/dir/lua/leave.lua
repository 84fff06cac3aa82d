-- DIR_OP_LEAVE: generation, who leaves, its incarnation or '', lost
local generation, node, incarnation, lost = unpack(ARGV)
local holder = e['h' .. node]

if e.g ~= generation or not holder then return answer(GONE) end
if incarnation ~= '' and string.sub(holder, 1, 16) ~= incarnation then return answer(GONE) end
let_go(node, lost == '1')
return save(DONE)
