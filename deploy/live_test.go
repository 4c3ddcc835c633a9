package deploy

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

const (
	soon   = time.Minute // longer than anything that a test waits for
	window = "15s"       // window of rates, with a scrape every half second
)

// Two real workers run with the environment of the stack, and a producer. Mails fail, a
// worker stops for longer than its lease, the store is away. Prometheus, with the
// stack's configuration, must have data for every panel, with the right numbers.
func TestDeploy_ThePanelsAreFilledByALiveSystem(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t)
	mails := newMailServer(t)
	program := buildWorker(t)
	images := newImages(t)
	start := func() *workerProcess {
		env := compose(t).Services["worker"].Environment
		for name, value := range map[string]string{
			"JOBS_BROKER": redis.URL, "JOBS_LEASE": "1s", "WORKER_LISTEN": "127.0.0.1:0",
			"SMTP_HOST": "127.0.0.1", "SMTP_PORT": strconv.Itoa(mails.port), "IMAGE_DIR": images,
		} {
			env[name] = value
		}
		return startWorker(t, program, env)
	}
	p := newProducer(t, redis.URL)

	// A worker stops while it sends a mail. Another one reclaims the job, and the first
	// one settles too late.
	first := start()
	p.mail(t, "hold")
	mails.awaitHeld(t)
	first.signal(t, syscall.SIGSTOP)
	second := start()
	mails.awaitHeld(t)
	first.signal(t, syscall.SIGCONT)
	mails.release()

	prometheus := startPrometheus(t, first.address, second.address, p.address)
	stop := p.traffic(t)
	for _, path := range []string{"/healthz", "/readyz", "/stats"} {
		awaitOK(t, "http://"+first.address+path)
	}
	missing := queries(t, window)
	missing["autoscaling"] = []string{scalingQuery(t)}
	prometheus.fill(t, missing, "Errors a second")
	redis.Kill()
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	prometheus.fill(t, missing)

	// Three processes report the same queues: nothing is summed.
	stop()
	dead := p.dead(t)
	if dead == 0 {
		t.Error("no mail was refused for good")
	}
	query := queries(t, window)["Dead letters"][0]
	prometheus.await(t, fmt.Sprintf("the dashboard shows %d dead letters, which is what the store has", p.dead(t)), func() bool {
		values := prometheus.query(t, query)
		return len(values) == 1 && values[0] == float64(p.dead(t))
	})
	prometheus.checkRules(t)
	if names := prometheus.labelValues(t, "jobs_queue_depth", "queue"); !slices.Contains(names, "critical") ||
		!slices.Contains(names, "default") {
		t.Errorf("the dashboard's list of queues is %v", names)
	}
	for _, w := range []*workerProcess{first, second} {
		w.signal(t, syscall.SIGTERM)
		w.awaitEnd(t)
	}
}

// fill repeats the missing queries until each has had data, and removes those. The
// panels in later may stay empty for now.
func (p *prometheus) fill(t *testing.T, missing map[string][]string, later ...string) {
	t.Helper()
	p.await(t, "all panels have data", func() bool {
		left := 0
		for title, exprs := range missing {
			missing[title] = slices.DeleteFunc(exprs, func(expr string) bool {
				return slices.ContainsFunc(p.query(t, expr), func(v float64) bool { return !math.IsNaN(v) })
			})
			if len(missing[title]) == 0 {
				delete(missing, title)
			} else if !slices.Contains(later, title) {
				left++
			}
		}
		return left == 0
	})
	if t.Failed() {
		for title, exprs := range missing {
			t.Errorf("nothing to see in panel %q: %s", title, strings.Join(exprs, "\n  "))
		}
		t.FailNow()
	}
}

// producer enqueues from this process, with metrics.
type producer struct {
	client    *jobs.Client
	inspector *inspect.Inspector
	address   string // address of its metrics
}

var mailTask = jobs.Define[map[string]any]("email:send")

// newProducer opens the store for the test.
func newProducer(t *testing.T, url string) *producer {
	t.Helper()
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	metrics, address := serveMetrics(t, b)
	p := &producer{inspector: inspect.New(b), address: address}
	p.client = jobs.NewClient(metrics.Broker(), jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{metrics.Enqueue()}})
	t.Cleanup(func() { p.client.Close() })
	return p
}

func mailTo(name string) map[string]any {
	return map[string]any{"to": []string{name + "@example.com"}, "subject": "Hi", "text": "Hello."}
}

func (p *producer) mail(t *testing.T, to string, options ...jobs.Option) {
	t.Helper()
	if _, err := mailTask.Enqueue(t.Context(), p.client, mailTo(to), options...); err != nil {
		t.Fatal(err)
	}
}

// traffic enqueues jobs of all kinds until stop is called. The metrics count the
// results.
func (p *producer) traffic(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			mail := func(to string, options ...jobs.Option) {
				_, _ = mailTask.Enqueue(ctx, p.client, mailTo(to), options...)
			}
			mail("fine")
			mail("fine", jobs.WithQueue("critical"), jobs.WithDelay(200*time.Millisecond))
			mail("fine", jobs.WithIdempotencyKey("once"))
			mail("fine", jobs.WithUniqueKey("one at a time"), jobs.WithUniqueWindow(time.Hour))
			_ = p.burst(ctx) // more than the workers have slots for: the next claim follows at once
			mail("nobody")
			mail("busy", jobs.WithMaxRetries(1), jobs.WithBackoff(jobs.Backoff{Kind: jobs.BackoffConstant, Base: time.Millisecond}))
			_, _ = p.client.Enqueue(ctx, jobs.NewTask("image:resize", []byte(`{"source":"in.png","target":"out.png","width":8,"height":8}`)))
			_, _ = p.client.Enqueue(ctx, jobs.NewTask("too large", make([]byte, 2<<20)))
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() { cancel(); <-done }
}

// burst enqueues mails together.
func (p *producer) burst(ctx context.Context) error {
	tasks := make([]*jobs.Task, 50)
	for i := range tasks {
		var err error
		if tasks[i], err = mailTask.Task(mailTo("fine")); err != nil {
			return err
		}
	}
	_, err := p.client.EnqueueMany(ctx, tasks)
	return err
}

// dead returns the number of dead jobs in all queues.
func (p *producer) dead(t *testing.T) (n int64) {
	t.Helper()
	all, err := p.inspector.Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range all {
		n += q.Counts[jobs.StateDead]
	}
	return n
}
