-- Why a script does nothing to a queue: the first element of its answer.
local ABSENT, BUCKETS, NEWER, GONE, GAP, BUSY, LIMITED = 1, 2, 3, 4, 5, 6, 7
