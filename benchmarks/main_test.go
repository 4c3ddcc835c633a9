package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/benchmarks/report"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		childMain()
	}
	os.Exit(m.Run())
}

func TestMain_PayloadsAreReadAlsoAfterAStoreRewroteThem(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_790_000_000, 123_456_789)
	p := payload(987_654, at)
	if len(p) != payloadSize {
		t.Errorf("a payload of %d bytes, want %d", len(p), payloadSize)
	}
	for _, form := range [][]byte{p, bytes.ReplaceAll(bytes.ReplaceAll(p, []byte(":"), []byte(": ")), []byte(","), []byte(", "))} {
		if n, ns := parsePayload(form); n != 987_654 || ns != at.UnixNano() {
			t.Errorf("%s is read as job %d, time %d; want 987654, %d", form, n, ns, at.UnixNano())
		}
	}
	if n, ns := parsePayload([]byte("{}")); n != 0 || ns != 0 {
		t.Errorf("a payload without numbers is read as job %d, time %d", n, ns)
	}
}

func TestMain_EveryWorkloadHasItsNameOnceInAStore(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, w := range workloads() {
		name := w.store + "/" + w.name
		if seen[name] || len(w.systems(func(string) bool { return true })) == 0 {
			t.Errorf("%s is there twice, or for no system", name)
		}
		seen[name] = true
	}
}

func memoryRun(t *testing.T) options {
	dir := t.TempDir()
	return options{rounds: 2, longRounds: 1, scale: 0.001, only: "memory/W2", results: filepath.Join(dir, "results"),
		out: filepath.Join(dir, "doc.md")}
}

// measured runs the benchmark and returns the results that it wrote.
func measured(t *testing.T, o options) *report.Results {
	t.Helper()
	if err := benchmark(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.results)
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMain_ARunMeasuresWithProcessesOfItsOwn(t *testing.T) {
	t.Parallel()
	o := memoryRun(t)
	r := measured(t, o)
	for _, metric := range []string{"jobs/s", "worker µs/job", "worker allocs/job"} {
		values, failure := r.Values("W2", "memory", "jobs-memory", metric)
		if len(values) != 2 || values[0] <= 0 || failure != "" {
			t.Errorf("%s: %v, failure %q; want a figure above zero for two rounds", metric, values, failure)
		}
	}
	if _, err := os.Stat(o.out); err == nil {
		t.Error("a document was written of a run of reduced size")
	}
}

func TestMain_AFileIsMeasuredAndRemoved(t *testing.T) {
	t.Parallel()
	o := memoryRun(t)
	o.only, o.dir = "file/(W1batch|W2)$", t.TempDir()
	r := measured(t, o)
	for _, workload := range []string{"W1batch", "W2"} {
		values, failure := r.Values(workload, "file", "jobs-file", "jobs/s")
		if len(values) != 2 || values[0] <= 0 || failure != "" {
			t.Errorf("%s: %v, failure %q; want a figure above zero for two rounds", workload, values, failure)
		}
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) > 0 {
		t.Errorf("in the directory for the stores %v is left, %v", left, err)
	}
}

func TestMain_AtADepthItIsMeasuredHowLongClaimsTake(t *testing.T) {
	t.Parallel()
	o := memoryRun(t)
	o.only, o.rounds = "memory/depth10k", 1
	r := measured(t, o)
	for _, metric := range []string{"claim mean ms", "claim p50 ms", "claim p99 ms"} {
		values, failure := r.Values("depth10k", "memory", "jobs-memory", metric)
		if len(values) != 1 || values[0] <= 0 || failure != "" {
			t.Errorf("%s: %v, failure %q; want one figure above zero", metric, values, failure)
		}
	}
}

func TestMain_ASystemOfOneWorkloadTakesPartInNoOther(t *testing.T) {
	t.Parallel()
	for _, w := range workloads() {
		takesPart := slices.Contains(w.systems(func(string) bool { return true }), "refusing-redis")
		if want := w.store == "redis" && w.name == "W1par"; takesPart != want {
			t.Errorf("refusing-redis in %s/%s: %v, want %v", w.store, w.name, takesPart, want)
		}
	}
}

func TestMain_AnInterruptedRunWritesNoDocument(t *testing.T) {
	t.Parallel()
	o := memoryRun(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupt := errors.New("interrupt")
	cancel(interrupt)
	if err := benchmark(ctx, o); !errors.Is(err, interrupt) || !strings.Contains(err.Error(), "no document was written") {
		t.Errorf("an interrupted run ends with %v, want the interrupt and that there is no document", err)
	}
	if _, err := os.Stat(o.out); err == nil {
		t.Error("a document was written of an interrupted run")
	}
}

func TestMain_SenselessFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*options){
		"rounds":   func(o *options) { o.rounds = 0 },
		"scale":    func(o *options) { o.scale = 2 },
		"nothing":  func(o *options) { o.only = "no such workload" },
		"only":     func(o *options) { o.only = "(" },
		"elsewhen": func(o *options) { o.results = filepath.Join(o.results, "no", "such", "place") },
	} {
		o := memoryRun(t)
		change(&o)
		if err := benchmark(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
