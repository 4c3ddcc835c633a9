local LAYOUT = 1 -- the version of the keys' contents that these scripts know
local PLAIN = '1' -- the same, as the field p of a queue for push.lua and lineup.lua has it
