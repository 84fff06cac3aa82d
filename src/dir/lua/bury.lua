-- DIR_OP_BURY: generation, ms
if e.g == ARGV[1] then drop_entry() end
bury(ARGV[1], ARGV[2])
return save(DONE)
