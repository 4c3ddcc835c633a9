local LAYOUT = 1 -- the version of the keys' contents that these scripts know
