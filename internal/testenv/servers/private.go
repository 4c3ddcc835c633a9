package servers

import "context"

// Private is a server for one test. It keeps its data when it is killed: Redis logs every write in its
// append-only file, PostgreSQL has its default durability. It is always a program of this machine.
type Private struct {
	URL string

	process *Process
	ready   func(context.Context) error
}

// PrivateRedis starts a Redis server for one test.
func PrivateRedis() (*Private, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	p, addr, err := startRedis(ctx, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	return &Private{URL: "redis://" + addr + "/0", process: p,
		ready: func(ctx context.Context) error { return redisReady(ctx, addr) }}, err
}

// PrivatePostgres starts a PostgreSQL server for one test.
func PrivatePostgres() (*Private, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	p, url, err := startPostgres(ctx)
	return &Private{URL: url, process: p,
		ready: func(ctx context.Context) error { return postgresReady(ctx, url) }}, err
}

func (s *Private) dir() string { return s.process.Dir }

// Kill ends the server at once, as a crash would, and waits for its end.
func (s *Private) Kill() { s.process.crash() }

// Start restarts the server with its data and its address, and waits until it answers.
func (s *Private) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.process.start(s.process.args...); err != nil {
		return err
	}
	return poll(ctx, s.process, s.ready)
}

// Stop ends the server and removes its data.
func (s *Private) Stop() { s.process.stop() }
