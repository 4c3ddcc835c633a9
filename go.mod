module github.com/seed81422ce9/jobs

go 1.25.0
