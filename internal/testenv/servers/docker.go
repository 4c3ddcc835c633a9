package servers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

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
	keepUntilStop(c)
	if err != nil {
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
	keepUntilStop(c)
	if err != nil {
		return "", err
	}
	url, err := c.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return "", err
	}
	return url, poll(ctx, nil, func(ctx context.Context) error { return postgresReady(ctx, url) })
}

// dockerAnswers says why there is no Docker daemon to use, or nil. It asks
// once: the library's log is set for the whole process.
var dockerAnswers = sync.OnceValue(func() (err error) {
	// Without a daemon, parts of the library panic rather than return.
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

// keepUntilStop has the container removed by Stop. A process that is killed
// leaves that to the library's reaper.
func keepUntilStop(c testcontainers.Container) {
	atStop(func() { _ = testcontainers.TerminateContainer(c) })
}

// quiet keeps the library's progress out of test output.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
