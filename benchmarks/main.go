// Command benchmarks compares jobs with asynq on Redis, with River on
// Postgres and with prototypes without a framework, on servers of its own.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed81422ce9/jobs/benchmarks/report"
	"github.com/seed81422ce9/jobs/benchmarks/store"
	"github.com/seed81422ce9/jobs/benchmarks/system"
)

type options struct {
	rounds, longRounds      int
	scale                   float64
	only, systems           string
	deep, appendTo, publish bool
	results, out, profile   string
	dir                     string
	redisPort, postgresPort int
}

func main() {
	if os.Getenv(childVariable) != "" {
		childMain()
	}
	var o options
	flag.IntVar(&o.rounds, "rounds", report.MinRounds, "rounds of each workload")
	flag.IntVar(&o.longRounds, "long-rounds", 3, "rounds of the workloads that take minutes")
	flag.Float64Var(&o.scale, "scale", 1, "part of the full sizes; figures of less than 1 are not published")
	flag.StringVar(&o.only, "only", "", "workloads to run, a regular expression for `store/name`, such as redis/W2$")
	flag.StringVar(&o.systems, "systems", "", "systems to run, a regular expression, such as jobs|asynq")
	flag.BoolVar(&o.deep, "deep", false, "also measure at a depth of five million jobs, and fleets of workers by queues")
	flag.StringVar(&o.results, "results", "results.jsonl", "file for the results, one JSON object a line")
	flag.BoolVar(&o.appendTo, "append", false, "add to the results instead of beginning anew")
	flag.BoolVar(&o.publish, "report", false, "only write the document from the results")
	flag.StringVar(&o.out, "out", filepath.Join("..", "docs", "benchmarks.md"), "document to write when the results are complete")
	flag.StringVar(&o.profile, "profile", "", "directory for CPU profiles of the measured processes")
	flag.StringVar(&o.dir, "dir", "", "directory below which the servers keep their data (default: the system's for temporary files)")
	flag.IntVar(&o.redisPort, "redis-port", 0, "port for the Redis server, 0 for a free one")
	flag.IntVar(&o.postgresPort, "postgres-port", 0, "port for the Postgres server, 0 for a free one")
	sizeFlags()
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := benchmark(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func benchmark(ctx context.Context, o options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is no flag; see -help", flag.Arg(0))
	}
	if o.rounds < 1 || o.longRounds < 1 || o.scale <= 0 || o.scale > 1 {
		return errors.New("-rounds and -long-rounds must be 1 or more, -scale above 0 and at most 1")
	}
	if sizes.jobs < 1 || sizes.full < 1 || sizes.handlers < 1 || sizes.lone < 2 || sizes.rate < 1 {
		return errors.New("the -fleet flags must be 1 or more, -fleet-lone 2 or more")
	}
	if !o.publish {
		if err := measure(ctx, o); err != nil {
			return fmt.Errorf("%w; no document was written, what was measured is in %s", err, o.results)
		}
	}
	return publish(o)
}

// measure runs the workloads on servers that end with it.
func measure(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	systems, err := regexp.Compile(o.systems)
	if err != nil {
		return err
	}
	h := &harness{stores: map[string]store.Store{}, scale: o.scale, profile: o.profile, dir: o.dir}
	if h.env, err = circumstances(o); err != nil {
		return err
	}
	var works []*workload
	for _, w := range workloads() {
		names := w.systems(systems.MatchString)
		if w.deep && !o.deep || len(names) == 0 || !only.MatchString(w.store+"/"+w.name) {
			continue
		}
		works = append(works, w)
		h.env.Plan = append(h.env.Plan, w.plan(names, o))
	}
	if len(works) == 0 {
		return errors.New("-only and -systems leave nothing to measure")
	}
	if h.tmp, err = os.MkdirTemp("", "jobs-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(h.tmp)
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return err
		}
	}
	for name, port := range map[string]int{"redis": o.redisPort, "postgres": o.postgresPort} {
		if !slices.ContainsFunc(works, func(w *workload) bool { return w.store == name }) {
			continue
		}
		s, err := store.Start(ctx, name, o.dir, port)
		if err != nil {
			return err
		}
		defer s.Stop()
		h.stores[name] = s
		if o.scale == 1 {
			if err := s.Warm(ctx); err != nil {
				return err
			}
		}
		if h.env.Stores[name], err = s.Describe(ctx); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(works, func(w *workload) bool { return w.store == "file" }) {
		h.env.Stores["file"] = "A file of bbolt, synced before each answer"
	}
	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if o.appendTo {
		mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	f, err := os.OpenFile(o.results, mode, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	h.out = f
	if h.env.Load > quiet {
		logf("The load average is %.2f: other programs are running, and what is measured now says little.", h.env.Load)
	}
	if err := h.write(report.Line{Env: &h.env}); err != nil {
		return err
	}
	for i, w := range works {
		if err := h.workload(ctx, w, h.env.Plan[i]); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func (w *workload) rounds(o options) int {
	if w.long {
		return o.longRounds
	}
	return o.rounds
}

func (w *workload) plan(names []string, o options) report.Planned {
	k, err := system.Find(names[0])
	if err != nil {
		panic(err) // the names are those of Kinds
	}
	return report.Planned{Workload: w.name, About: w.about, Store: w.store, Jobs: w.size(k, o.scale), Systems: names, Rounds: w.rounds(o)}
}

// quiet is the load average up to which the machine counts as idle.
const quiet = 0.5

func circumstances(o options) (report.Env, error) {
	now := time.Now()
	e := report.Env{Run: now.UTC().Format(time.RFC3339Nano), Began: now.Format("January 2006"), CPU: "unknown CPU",
		CPUs: runtime.NumCPU(), Scale: o.scale, Versions: map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go")},
		Stores: map[string]string{}}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				e.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return e, fmt.Errorf("the CPU time of servers is read from /proc, as Linux has it: %w", err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	if e.Load, err = strconv.ParseFloat(first, 64); err != nil {
		return e, err
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return e, errors.New("this program does not know the versions that it is built of")
	}
	names := map[string]string{"github.com/hibiken/asynq": "asynq", "github.com/riverqueue/river": "River",
		"github.com/redis/go-redis/v9": "go-redis", "github.com/jackc/pgx/v5": "pgx"}
	for _, m := range info.Deps {
		if name := names[m.Path]; name != "" {
			e.Versions[name] = m.Version
		}
	}
	return e, nil
}

// publish writes the document if the results are fit for it; otherwise it shows the
// results so far.
func publish(o options) error {
	text, err := os.ReadFile(o.results)
	if err != nil {
		return err
	}
	r, err := report.Read(bytes.NewReader(text))
	if err != nil {
		return err
	}
	var want []report.Planned
	least := map[string]int{}
	full := options{rounds: report.MinRounds, longRounds: 3, scale: 1}
	var order []report.Planned
	for _, w := range workloads() {
		order = append(order, report.Planned{Workload: w.name, Store: w.store})
		if !w.deep {
			want = append(want, w.plan(w.systems(func(string) bool { return true }), full))
			least[w.name] = w.rounds(full)
		}
	}
	about := map[string]string{}
	for _, k := range system.Kinds {
		about[k.Name] = k.About
	}
	unfit := r.Unfit(want, func(workload string) int { return least[workload] })
	r.Sort(order)
	var doc bytes.Buffer
	if err := r.Render(&doc, unfit, about); err != nil {
		return err
	}
	if unfit != "" {
		_, err := os.Stdout.Write(doc.Bytes())
		fmt.Fprintf(os.Stderr, "%s was not written: %s\n", o.out, unfit)
		return err
	}
	return os.WriteFile(o.out, doc.Bytes(), 0o644)
}
