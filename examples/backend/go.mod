module example.com/savebroker

go 1.26.0

replace github.com/seed81422ce9/jobs => ../..

require github.com/seed81422ce9/jobs v0.0.0-00010101000000-000000000000

require (
	github.com/google/btree v1.1.3 // indirect
	github.com/oklog/ulid/v2 v2.1.2 // indirect
)
