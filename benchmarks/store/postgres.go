package store

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Settings that differ from the server's defaults.
const (
	sharedBuffers = "512MB"
	maxWALSize    = "4GB"
	// For a hundred workers with their own pools.
	maxConnections = "1000"
	logFiles       = 256 // of 16 MB, which is as many as maxWALSize allows
)

type postgresServer struct {
	*process
	url  url.URL
	root int // the postmaster's process
	conn *pgx.Conn
}

// startPostgres starts a server with a fresh cluster.
func startPostgres(ctx context.Context, dir string, port int) (Store, error) {
	initdb, err := program("initdb", "postgresql", "/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	addr, err := address(port)
	if err != nil {
		return nil, err
	}
	p, err := newProcess(dir, "postgres", "QUIT")
	if err != nil {
		return nil, err
	}
	s := &postgresServer{process: p}
	if err := s.boot(ctx, initdb, addr); err != nil {
		p.stop()
		return nil, err
	}
	return s, nil
}

func (s *postgresServer) boot(ctx context.Context, initdb, addr string) error {
	data, secret := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "secret")
	// Passwords keep other users of the machine out.
	password := rand.Text()
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return err
	}
	if s.cred != nil {
		if err := os.Chown(secret, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
			return err
		}
	}
	err := s.run(initdb, "-D", data, "-U", "postgres", "-A", "password", "--pwfile", secret,
		"-E", "UTF8", "--locale", "C.UTF-8", "--no-sync", "--no-instructions")
	if err != nil {
		return err
	}
	s.url = url.URL{Scheme: "postgres", User: url.UserPassword("postgres", password), Host: addr, Path: "/postgres",
		RawQuery: "sslmode=disable"}
	_, port, _ := net.SplitHostPort(addr)
	args := []string{filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-p", port, "-h", "127.0.0.1", "-k", s.dir, "-c",
		"shared_buffers=" + sharedBuffers, "-c", "max_connections=" + maxConnections}
	// Prevents a checkpoint before Warm has made all files.
	config := filepath.Join(data, "postgresql.auto.conf")
	if err := os.WriteFile(config, []byte("max_wal_size = 64GB\n"), 0o600); err != nil {
		return err
	}
	err = s.start(ctx, func(ctx context.Context) (err error) {
		s.conn, err = pgx.Connect(ctx, s.url.String())
		return err
	}, args...)
	if err == nil {
		s.root, err = s.pid()
	}
	return err
}

// Warm makes the files of the log, which the server reuses from then on. Each takes
// up to 70 ms, during which no transaction can commit.
func (s *postgresServer) Warm(ctx context.Context) error {
	for range logFiles {
		if err := s.exec(ctx, "select pg_logical_emit_message(false, '', '')", "select pg_switch_wal()"); err != nil {
			return err
		}
	}
	return s.exec(ctx, "checkpoint", "alter system set max_wal_size = '"+maxWALSize+"'", "select pg_reload_conf()")
}

func (s *postgresServer) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := s.conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (s *postgresServer) Empty(ctx context.Context, name string) (string, error) {
	space := s.url
	space.Path = "/" + name
	err := s.Drop(ctx, name)
	return space.String(), errors.Join(err, s.exec(ctx, "create database "+pgx.Identifier{name}.Sanitize()))
}

func (s *postgresServer) Drop(ctx context.Context, name string) error {
	return s.exec(ctx, "drop database if exists "+pgx.Identifier{name}.Sanitize()+" with (force)")
}

func (s *postgresServer) Calm(ctx context.Context) error { return s.exec(ctx, "checkpoint") }

func (s *postgresServer) Use(ctx context.Context) (u Use, err error) {
	if u.CPU, err = processCPU(s.root); err != nil {
		return u, err
	}
	err = s.conn.QueryRow(ctx, `select (pg_current_wal_insert_lsn() - '0/0')::bigint,
		(select sum(xact_commit) from pg_stat_database)::bigint`).Scan(&u.WAL, &u.Calls)
	return u, err
}

func (s *postgresServer) Bytes(ctx context.Context, name string) (n int64, err error) {
	err = s.conn.QueryRow(ctx, "select pg_database_size($1)", name).Scan(&n)
	return n, err
}

func (s *postgresServer) Describe(ctx context.Context) (string, error) {
	var version string
	err := s.conn.QueryRow(ctx, "show server_version").Scan(&version)
	version, _, _ = strings.Cut(version, " ")
	return "PostgreSQL " + version + ", shared_buffers=" + sharedBuffers + ", max_connections=" + maxConnections +
		", max_wal_size=" + maxWALSize + ", the rest default (fsync and synchronous_commit on), loopback TCP", err
}

func (s *postgresServer) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.conn.Close(ctx)
	s.stop()
}
