-- DIR_OP_HAND_OVER: generation node incarnation from fewer
local generation, node, incarnation, from, fewer = unpack(ARGV)
local NOBODY = '0000000000000000'
local giver, own = e['h' .. from], e['h' .. node]
local keeps = own and string.sub(own, 17) == KEEPER

-- One keeper more.
local function keep_too()
	if count_keepers(node) >= tonumber(e.w) then return answer(EXISTS) end
	if not hold(node, incarnation, KEEPER) then return answer(GONE) end
	return save(DONE, nil, true)
end

if e.g ~= generation then return answer(GONE) end
if from == NOBODY and not keeps then return keep_too() end
if not giver or string.sub(giver, 17) ~= KEEPER then return answer(keeps and DONE or GONE) end
if keeps and from ~= node and fewer == '0' then return answer(EXISTS) end -- two roles on one node would be one
if own or count('h') < HOLDERS then
	put('h' .. from, string.sub(giver, 1, 16) .. SECONDARY)
else
	del('h' .. from)
end
hold(node, incarnation, KEEPER)
return save(DONE, nil, true)
