package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// forTests are settings of a server whose data nobody will miss: no waiting
// for a disk, and room for many test schemas used in parallel.
var forTests = []string{
	"fsync=off", "full_page_writes=off", "max_connections=500", "shared_buffers=256MB",
	"max_locks_per_transaction=256", "max_wal_size=4GB",
}

func localPostgres(ctx context.Context) (string, error) {
	_, url, err := startPostgres(ctx, forTests...)
	return url, err
}

// startPostgres starts a server on a fresh data directory.
func startPostgres(ctx context.Context, settings ...string) (*Process, string, error) {
	const debian = "/usr/lib/postgresql/*/bin"
	initdb, err := program("initdb", debian)
	if err != nil {
		return nil, "", err
	}
	postgres := filepath.Join(filepath.Dir(initdb), "postgres")
	// Passwords keep other users of the machine out. SCRAM would hash
	// thousands of times for each of the many connections that tests make.
	password := rand.Text()
	args := func(p *Process, port string) ([]string, error) {
		data, secret := filepath.Join(p.Dir, "data"), filepath.Join(p.Dir, "secret")
		if err := p.write(secret, password); err != nil {
			return nil, err
		}
		err := p.run(initdb, "-D", data, "-U", "postgres", "-A", "md5", "--pwfile", secret,
			"-E", "UTF8", "--locale", "C.UTF-8", "--no-sync", "--no-instructions")
		args := []string{postgres, "-D", data, "-p", port, "-h", "127.0.0.1", "-k", p.Dir}
		for _, s := range settings {
			args = append(args, "-c", s)
		}
		return args, err
	}
	dsn := func(addr string) string {
		u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", password), Host: addr, Path: "/postgres",
			RawQuery: "sslmode=disable"}
		return u.String()
	}
	ready := func(ctx context.Context, addr string) error { return postgresReady(ctx, dsn(addr)) }
	p, addr, err := onFreePort(ctx, "postgres", "QUIT", args, ready)
	return p, dsn(addr), err
}

func postgresReady(ctx context.Context, url string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// localPgBouncer starts a pgbouncer in front of the server of Postgres.
func localPgBouncer(ctx context.Context) (string, error) {
	binary, err := program("pgbouncer", "/usr/sbin")
	if err != nil {
		return "", err
	}
	behind, err := Postgres()
	if err != nil {
		return "", err
	}
	to, err := pgx.ParseConfig(behind)
	if err != nil {
		return "", err
	}
	args := func(p *Process, port string) ([]string, error) {
		config, users := filepath.Join(p.Dir, "pgbouncer.ini"), filepath.Join(p.Dir, "users.txt")
		ini := strings.Join([]string{
			"[databases]",
			fmt.Sprintf("* = host=%s port=%d", to.Host, to.Port),
			"[pgbouncer]",
			"listen_addr = 127.0.0.1", "listen_port = " + port, "unix_socket_dir =",
			"auth_type = plain", "auth_file = " + users,
			"pool_mode = transaction", "max_client_conn = 1000", "default_pool_size = 40",
			"",
		}, "\n")
		if err := p.write(config, ini); err != nil {
			return nil, err
		}
		entry := fmt.Sprintf("\"%s\" \"%s\"\n", quoted(to.User), quoted(to.Password))
		return []string{binary, config}, p.write(users, entry)
	}
	dsn := func(addr string) string {
		u := url.URL{Scheme: "postgres", User: url.UserPassword(to.User, to.Password), Host: addr, Path: "/" + to.Database,
			RawQuery: "sslmode=disable"}
		return u.String()
	}
	// Its first ready connection also proves the way through to the server.
	// The extended protocol needs prepared statements, which older pgbouncers
	// lose between transactions; connecting uses none.
	ready := func(ctx context.Context, addr string) error { return postgresReady(ctx, dsn(addr)) }
	_, addr, err := onFreePort(ctx, "pgbouncer", "KILL", args, ready)
	return dsn(addr), err
}

func quoted(s string) string { return strings.ReplaceAll(s, `"`, `""`) }
