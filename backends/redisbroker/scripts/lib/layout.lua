local LAYOUT = 2 -- the version of the keys' contents that these scripts know
