package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// holder makes the test binary a process that starts a server and waits to be killed.
const holder = "JOBS_TEST_HOLD_A_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(holder) != "" {
		p, addr, err := startRedis(context.Background())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.Dir, addr)
		select {}
	}
	goleak.VerifyTestMain(m)
}

func TestServers_AServerAndItsDirectoryAreGoneAfterItsProcessIsKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holder+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	dir, addr, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok {
		t.Fatalf("the process that should start a server said %q (error %v)", line, err)
	}
	if err := answers(addr); err != nil {
		t.Errorf("before the kill: %v", err)
	}

	cmd.Process.Kill()
	cmd.Wait()
	eventually(t, "the server to be gone", func() bool { return answers(addr) != nil })
	eventually(t, "its directory to be removed", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

func TestServers_AnErrorNamesTheThreeWays(t *testing.T) {
	t.Setenv(EnvRedis, "")
	t.Setenv(EnvWay, "")
	none := func(context.Context) (string, error) { return "", fmt.Errorf("there is none here") }
	_, err := provide("Redis", EnvRedis, none, none)
	for _, want := range []string{EnvRedis, "Docker", "Debian packages", "docker: there is none here", "local: there is none here"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not mention %q", err, want)
		}
	}
}

func TestServers_AWayCanBeForced(t *testing.T) {
	way := func(name string) start {
		return func(context.Context) (string, error) { return name, nil }
	}
	fails := func(context.Context) (string, error) { return "", fmt.Errorf("no") }
	for _, c := range []struct {
		way, env      string
		docker, local start
		want          string
	}{
		{"", "given", way("docker"), way("local"), "given"},
		{"", "", way("docker"), way("local"), "docker"},
		{"", "", fails, way("local"), "local"},
		{"", "", nil, way("local"), "local"},
		{"env", "given", way("docker"), way("local"), "given"},
		{"env", "", way("docker"), way("local"), ""},
		{"docker", "given", way("docker"), way("local"), "docker"},
		{"docker", "", fails, way("local"), ""},
		{"docker", "", nil, way("local"), "local"},
		{"local", "given", way("docker"), way("local"), "local"},
		{"podman", "given", way("docker"), way("local"), ""},
	} {
		t.Setenv(EnvWay, c.way)
		t.Setenv(EnvRedis, c.env)
		got, err := provide("Redis", EnvRedis, c.docker, c.local)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s=%q, URL %q: got %q, %v; want %q", EnvWay, c.way, c.env, got, err, c.want)
		}
	}
}

func TestServers_AServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	_, _, err := startRedis(t.Context(), "--no-such-setting", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("the error %v does not quote the server's own words", err)
	}
}

func TestServers_ARestartedServerHasItsDataAndItsAddress(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() (*Private, error){"redis": PrivateRedis, "postgres": PrivatePostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := start()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			addr := address(t, s.URL)
			marker := filepath.Join(s.dir(), "marker")
			if err := os.WriteFile(marker, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			if answers(addr) == nil {
				t.Error("a killed server still answers")
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			if err := answers(addr); err != nil {
				t.Errorf("after the restart: %v", err)
			}
			if _, err := os.Stat(marker); err != nil {
				t.Errorf("its directory did not outlive the kill: %v", err)
			}
		})
	}
}

func address(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func answers(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	end := time.After(20 * time.Second)
	for !done() {
		select {
		case <-again.C:
		case <-end:
			t.Fatalf("waited 20s for %s", what)
		}
	}
}
