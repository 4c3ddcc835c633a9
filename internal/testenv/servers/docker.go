package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"github.com/testcontainers/testcontainers-go/modules/redis"
)

func dockerRedis(ctx context.Context) (string, error) {
	if err := dockerAnswers(); err != nil {
		return "", err
	}
	c, err := redis.Run(ctx, "redis:7")
	if err := keep(c, err); err != nil {
		return "", err
	}
	url, err := c.ConnectionString(ctx)
	if err != nil {
		return "", err
	}
	addr := strings.TrimPrefix(url, "redis://")
	return url, poll(ctx, nil, func(ctx context.Context) error { return redisReady(ctx, addr) })
}

func dockerPostgres(ctx context.Context) (string, error) {
	if err := dockerAnswers(); err != nil {
		return "", err
	}
	args := []string{"postgres"}
	for _, s := range forTests {
		args = append(args, "-c", s)
	}
	c, err := postgres.Run(ctx, "postgres:15", testcontainers.WithCmd(args...))
	if err := keep(c, err); err != nil {
		return "", err
	}
	url, err := c.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return "", err
	}
	if err := poll(ctx, nil, func(ctx context.Context) error { return postgresReady(ctx, url) }); err != nil {
		return "", err
	}
	return inUTF8(ctx, url)
}

// inUTF8 creates a database for the tests, because the image chose the encoding of the one that it
// has.
func inUTF8(ctx context.Context, server string) (string, error) {
	const name = "jobs_test"
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	_, err = c.Exec(ctx, "create database "+name+" template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C'")
	if err := errors.Join(err, c.Close(ctx)); err != nil {
		return "", err
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// dockerAnswers returns nil if there is a Docker daemon to use. It asks once, because it sets the log
// of the library for the whole process.
var dockerAnswers = sync.OnceValue(func() (err error) {
	// Without a daemon, parts of the library panic instead of returning an error.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	log.SetDefault(quiet{})
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return provider.Health(ctx)
})

// keep lets Stop remove a container, or removes it at once if it did not start. If the process is
// killed, the reaper of the library removes it.
func keep(c testcontainers.Container, err error) error {
	remove := func() { _ = testcontainers.TerminateContainer(c) }
	if err != nil {
		remove()
		return err
	}
	atStop(remove)
	return nil
}

// quiet keeps the library's progress out of test output.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
