package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestContexts_StoresAreKeptByName(t *testing.T) {
	t.Parallel()
	home, production, staging := t.TempDir(), testenv.RedisPlace(t), testenv.RedisPlace(t)
	file := filepath.Join(home, "jobsctl", "config.yaml")
	variables := make(map[string]string)
	does := func(code int, stdin, want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		got := run(t.Context(), args, environment{in: strings.NewReader(stdin), out: &out, err: &out,
			getenv: func(name string) string { return variables[name] }, home: func() (string, error) { return home, nil }})
		if said := out.String(); got != code || !strings.Contains(said, want) || strings.Contains(said, "s3cr3t") {
			t.Errorf("jobsctl %q exits with %d, want %d and %q:\n%s", args, got, code, want, said)
		}
	}
	does(2, "", "context use", "stats")
	does(0, staging+"\n", "staging is ", "context", "set", "staging")
	does(0, "", "production is ", "context", "set", "production", "--broker", production)
	does(0, "", "local is file:/data/jobs.db", "context", "set", "local", "--broker", "file:/data/jobs.db")
	does(0, "", `"store":"file:/data/jobs.db"`, "context", "ls", "-o", "json")
	does(0, "", "local is deleted", "context", "rm", "local")
	apart := filepath.Join(home, "apart.yaml")
	does(2, "", "no such file", "context", "use", "local", "--config", apart)
	does(0, "", "local is file:/data/jobs.db", "context", "set", "local", "--broker", "file:/data/jobs.db", "--config", apart)
	does(0, "", "Further commands use local", "context", "use", "local", "--config", apart)
	does(2, "nonsense\n", "give the URL", "context", "set", "other")
	does(2, "", "no colon", "context", "set", "redis://x", "--broker", production)
	does(2, "", `no context "none"`, "context", "use", "none")
	does(0, "", "Further commands use production", "contexts", "use", "production")
	does(0, "", "pending", "enqueue", "--type", "x", "--queue", "of-production")
	does(0, "", "pending", "enqueue", "--type", "x", "--queue", "of-staging", "--context", "staging")
	does(0, "", "of-production", "stats")
	does(0, "", "of-staging", "stats", "--context", "staging")
	does(7, "", "Really delete about 1 job in the context staging? [y/N]", "delete", "--state", "pending", "--all", "--context", "staging")
	does(0, "", "1 of 1 job moved", "move", "--queue", "of-staging", "--context", "staging", "--to", "production", "--yes")
	does(2, "", `no context "nowhere"`, "move", "--queue", "of-production", "--to", "nowhere", "--yes")
	does(0, "", `{"name":"production","current":true,"store":"redis://`, "context", "ls", "-o", "json")
	variables["JOBS_BROKER"] = staging
	does(0, "", "But JOBS_BROKER is set", "context", "use", "production")
	does(0, "", "JOBS_BROKER names the store", "context", "ls")
	clear(variables)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v (error %v), want 0600", info.Mode(), err)
	}
	does(0, "", "production is deleted", "context", "rm", "production")
	does(2, "", `no context "production"`, "context", "delete", "production")

	does(0, "redis://ada:s3cr3t@store:6379/0?password=s3cr3t\n", "redis://ada:…@store:6379/0", "context", "set", "secret")
	does(0, "", "ada:…@store", "context", "list")
	for mode, code := range map[os.FileMode]int{0o600: 0, 0o400: 0, 0o640: 2, 0o604: 2} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		want := map[int]string{0: "secret", 2: "chmod 600"}[code]
		does(code, "", want, "context", "ls")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	does(0, "shards://?a=redis%3A%2F%2F%3As3cr3t%40a&b=redis%3A%2F%2Fb\n", "a=redis://:…@a", "context", "set", "secret")
	does(0, "", `"store":"shards://?a=redis://:…@a`, "context", "ls", "-o", "json")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	does(2, "", "chmod 600", "context", "ls")
	if err := os.WriteFile(file, []byte("contexts: {a: {broker: redis://localhost}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	does(0, "", "localhost", "context", "ls") // the file has no secret, so others may read it
}

func TestContexts_NothingSecretOfAURLIsShown(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://localhost:6379/0":                               "redis://localhost:6379/0",
		"redis://:s3cr3t@localhost":                              "redis://:…@localhost",
		"redis+sentinel://h?master_name=m&password=s3cr3t":       "redis+sentinel://h?master_name=m&password=…",
		"postgres://ada@localhost/db":                            "postgres://ada@localhost/db",
		"postgres://ada:s3cr3t@h1:5432,h2:5432/db":               "postgres://ada:…@h1:5432,h2:5432/db",
		"postgres://ada:s3cr3t%zz@h/db":                          "postgres://…",
		"postgres://h/db?sslpassword=s3cr3t&sslmode=verify-full": "postgres://h/db?sslmode=verify-full&sslpassword=…",
		"memory://": "memory://…",

		"file:data/jobs.db":    "file:data/jobs.db",
		"File:///data/jobs.db": "File:///data/jobs.db",

		"shards://?a=redis%3A%2F%2Fa%3A6379&b=redis%3A%2F%2Fb":                     "shards://?a=redis://a:6379&b=redis://b",
		"shards://?a=redis%3A%2F%2F%3As3cr3t%40a%3A6379&b=redis%3A%2F%2Fb":         "shards://?a=redis://:…@a:6379&b=redis://b",
		"shards://?a=redis%3A%2F%2Fh%3Fdb%3D1%26password%3Ds3cr3t":                 "shards://?a=redis://h?db=1&password=…",
		"shards://?a=shards%3A%2F%2F%3Fb%3Dredis%253A%252F%252Fu%253As3cr3t%2540h": "shards://?a=shards://?b=redis://u:…@h",
		"redis+cluster://h?addr=i&addr=redis%3A%2F%2Fu%3As3cr3t%40j":               "redis+cluster://h?addr=i&addr=redis://u:…@j",
		"shards://?redis://:s3cr3t@a:6379":                                         "shards://…",
		"shards://?a=redis%3A%2F%2F%3Ax&s3cr3t%40a":                                "shards://…",
		"redis://:12/s3cr3t@h/0":                                                   "redis://…",
		"redis://:12#s3cr3t@h/0":                                                   "redis://…",
		"redis://h?password=s3cr3t;x=y":                                            "redis://…",
		"u:s3cr3t@redis://h/0":                                                     "…",
		"redis:s3cr3t@h?db=1":                                                      "…",
	} {
		shown, secret := redacted(url)
		if shown != want || secret != (strings.Contains(url, "s3cr3t") || url == "memory://") {
			t.Errorf("of %q %q is shown, want %q; secret is %v", url, shown, want, secret)
		}
	}
}
