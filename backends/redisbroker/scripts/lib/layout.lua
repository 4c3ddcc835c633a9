local LAYOUT = 1 -- the version of the layout that these scripts know
